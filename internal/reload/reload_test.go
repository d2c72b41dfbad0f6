package reload_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
	"github.com/egress-proxies/egress-proxies-operator/internal/reload"
)

func TestAChangedFileIsTakenOver(t *testing.T) {
	t.Parallel()
	x := following(t, registry.Result{Added: []string{"b"}, Changed: []string{"a"}, Removed: []string{"c"}})
	x.problem("a", "")
	x.write(start + "- {name: b, type: gcp}\n")
	if got, want := x.next(), (reload.Changes{Added: []string{"b"}, Changed: []string{"a"}, Removed: []string{"c"}}); !reflect.DeepEqual(got, want) {
		t.Errorf("changes %+v, want %+v", got, want)
	}
	if x.entries[0] != "a b" || x.recorded() != "success" {
		t.Errorf("reloaded %q, recorded %q", x.entries, x.recorded())
	}
	x.problem("a", "")
}

func TestWhatCannotBeUsedChangesNothingAndIsSaid(t *testing.T) {
	t.Parallel()
	x := following(t)
	for i, tc := range []struct {
		reason string
		change func() error
		want   string
	}{
		{"no YAML", func() error { x.write("providers: ["); return nil }, "InvalidConfiguration: the file has faults: line 1: "},
		{"nothing", func() error { x.write(""); return nil }, "InvalidConfiguration: the file has faults: the configuration is empty"},
		{"two faults", func() error {
			x.write("providers:\n- {name: a, type: x}\n- {name: b, type: local, y: 1}\n")
			return nil
		},
			`InvalidConfiguration: the file has faults: line 2: provider "a": type: "x" is not known; known types: gcp, local; line 3: provider "b": y: unknown key`},
		{"gone", func() error { return os.Remove(x.path) }, "Unreadable: the file cannot be read: open " + x.path},
		{"a folder", func() error { return os.Mkdir(x.path, 0o700) }, "Unreadable: the file cannot be read: " + x.path + " is not a regular file"},
		{"too large", func() error {
			err := os.Remove(x.path)
			x.write("providers: []\n" + strings.Repeat("#", registry.MaxFileSize))
			return err
		}, "Unreadable: the file cannot be read: " + x.path + " is larger than"},
	} {
		if err := tc.change(); err != nil {
			t.Fatal(err)
		}
		for !strings.HasPrefix(x.r.Problem("any"), tc.want) { // a folder's place is empty in between
			if c := x.next(); !c.Empty() {
				t.Errorf("%s: changes %+v", tc.reason, c)
			}
		}
		x.problem("any", tc.want)
		if n := strings.Count(x.logged(), "cannot be used"); n <= i {
			t.Errorf("%s: %d lines in the log", tc.reason, n)
		}
	}
	if x.reloads() > 0 {
		t.Errorf("the registry was asked for %q", x.entries)
	}
	x.write(start) // as it was
	x.next()
	x.problem("any", "")
	if !strings.HasSuffix(x.recorded(), "unreadable success") || !strings.HasPrefix(x.recorded(), "invalid invalid invalid unreadable") {
		t.Errorf("recorded %q", x.recorded())
	}
}

func TestWhatCannotBeBuiltIsInvalid(t *testing.T) {
	t.Parallel()
	x := following(t, registry.Result{Err: errors.New(`line 2: provider "a": gcp.project: no`)})
	x.write("providers:\n- {name: a, type: gcp}\n")
	x.next()
	x.problem("other", `InvalidConfiguration: the file has faults: line 2: provider "a": gcp.project: no`)
	if x.recorded() != "invalid" {
		t.Errorf("recorded %q", x.recorded())
	}
}

// What an entry is built from may come after the file, and a failure in between ends no retry of what was refused.
func TestWhatCannotBeBuiltIsTriedAgain(t *testing.T) {
	t.Parallel()
	refused := registry.Result{Refused: []registry.Refusal{{Name: "a", Why: registry.Busy, Text: "calls hang"}}}
	broken := registry.Result{Err: errors.New(`line 2: provider "a": kubernetes.kubeconfig: no such file`)}
	x := following(t, refused, broken, broken, registry.Result{Changed: []string{"a"}})
	x.write(start + "- {name: b, type: gcp}\n")
	for {
		if got := x.next(); slices.Contains(got.Changed, "a") {
			break
		}
	}
	x.problem("a", "")
	if n := strings.Count(x.logged(), "no such file"); n != 1 {
		t.Errorf("the failure was said %d times:\n%s", n, x.logged())
	}
}

func TestRefusedEntriesAreTriedAgain(t *testing.T) {
	t.Parallel()
	refused := registry.Result{Refused: []registry.Refusal{{Name: "a", Why: registry.Disowns, Text: "x is in use"}}}
	first := refused
	first.Added = []string{"b"}
	x := following(t, first, refused, refused, registry.Result{Changed: []string{"a"}})
	x.write(start + "- {name: b, type: gcp}\n")
	if got := x.next(); !reflect.DeepEqual(got.Added, []string{"b"}) {
		t.Errorf("changes %+v", got)
	}
	x.problem("a", "InUse: x is in use")
	x.problem("b", "")
	if got := x.next(); !reflect.DeepEqual(got.Changed, []string{"a"}) {
		t.Errorf("changes %+v", got)
	}
	x.problem("a", "")
	if got := x.entries; !reflect.DeepEqual(got, []string{"a b", "a b", "a b", "a b"}) {
		t.Errorf("reloads of %q", got)
	}
	if x.recorded() != "refused! success" || strings.Count(x.logged(), "its change is tried again") != 1 {
		t.Errorf("recorded %q, logged\n%s", x.recorded(), x.logged())
	}
	n := x.reloads()
	<-time.After(300 * time.Millisecond) // three times what a retry takes
	if x.reloads() != n {
		t.Error("what is not refused is tried again")
	}
}

// TestANewFileEndsTheTriesOfTheOneBefore: what was refused is no longer wanted.
func TestANewFileEndsTheTriesOfTheOneBefore(t *testing.T) {
	t.Parallel()
	var refused []registry.Result
	for range 1000 {
		refused = append(refused, registry.Result{Refused: []registry.Refusal{{Name: "a", Why: registry.Busy, Text: "busy"}}})
	}
	x := following(t, refused...)
	x.write(start + "- {name: b, type: gcp}\n")
	x.next()
	x.problem("a", "Busy: busy")
	x.write("providers: [")
	x.next()
	x.problem("a", "InvalidConfiguration: ")
	n := x.reloads()
	<-time.After(300 * time.Millisecond)
	if x.reloads() != n {
		t.Error("an entry of a file that is not there any more is tried again")
	}
}

func TestTheTextsHideSecretsAndStayTheSame(t *testing.T) {
	t.Parallel()
	key := "-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\\n"
	token := "ya29Aa0sentinelARrdaM8kq3pWqzXv7"
	for _, secret := range []string{key, token, "Bearer " + token} {
		x := following(t, registry.Result{Err: fmt.Errorf("line 2: provider \"a\": gcp.credentialsFile: %q: want an absolute path", secret)})
		x.write("providers:\n- {name: a, type: gcp}\n")
		x.next()
		x.problem("a", `InvalidConfiguration: the file has faults: line 2: provider "a": gcp.credentialsFile: "`)
		for _, text := range []string{x.r.Problem("a"), x.logged()} {
			if strings.Contains(text, "MIIE") || strings.Contains(text, "sentinel") {
				t.Errorf("a secret is in %q", text)
			}
		}
	}
	long := "a-name-of-sixty-three-characters-that-is-all-in-lower-case-abc1"
	x := following(t, registry.Result{Err: fmt.Errorf("line 2: provider %q: %s", long, strings.Repeat("ä", 1000))})
	x.write("providers: []\n")
	x.next()
	x.problem("a", `InvalidConfiguration: the file has faults: line 2: provider "`+long)
}
