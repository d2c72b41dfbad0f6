package tokenfile

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	"k8s.io/utils/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "correct-horse-battery"

func TestParse(t *testing.T) {
	many := "tokens:\n"
	for i := range maxEntries + 1 {
		many += fmt.Sprintf("- {name: n%d, token: token-number-%010d}\n", i, i)
	}
	for name, tc := range map[string]struct {
		text  string
		wants string // in the error; empty for none
	}{
		"one":                  {"tokens:\n- {name: a, token: " + secret + "}\n", ""},
		"with a scope":         {"tokens:\n- name: a\n  token: " + secret + "\n  namespaces: [crawl, prod]\n  selector: {country: de}\n", ""},
		"two tokens of one":    {"tokens:\n- {name: a, token: " + secret + "}\n- {name: a, token: " + secret + "-next}\n", ""},
		"as JSON":              {`{"tokens":[{"name":"a","token":"` + secret + `"}]}`, ""},
		"empty":                {"", "0 entries"},
		"no entries":           {"tokens: []\n", "0 entries"},
		"null":                 {"null\n", "0 entries"},
		"too many":             {many, "1001 entries"},
		"not YAML":             {"tokens: [" + secret, "not valid YAML"},
		"a list":               {"- " + secret + "\n", "wrong type"},
		"unknown member":       {"tokens:\n- {name: a, tokn: " + secret + "}\n", "/tokens/0/?"},
		"other casing":         {"tokens:\n- {Name: a, token: " + secret + "}\n", "/tokens/0/?"},
		"a token as member":    {"tokens:\n- {" + secret + ": alice}\n", "/tokens/0/?"},
		"a token as namespace": {"tokens:\n- {name: a, token: " + secret + "-x, namespaces: [" + secret + "/]}\n", "namespaces[0]"},
		"a key twice":          {"tokens:\n- {name: a, name: b, token: " + secret + "}\n", "twice"},
		"no name":              {"tokens:\n- {token: " + secret + "}\n", "tokens[0].name"},
		"odd name":             {"tokens:\n- {name: A B, token: " + secret + "}\n", "tokens[0].name"},
		"name of the default":  {"tokens:\n- {name: default, token: " + secret + "}\n", "taken"},
		"no token":             {"tokens:\n- {name: a}\n", "tokens[0].token"},
		"short token":          {"tokens:\n- {name: a, token: short}\n", "tokens[0].token: 5 characters"},
		"long token":           {"tokens:\n- {name: a, token: " + strings.Repeat("x", 513) + "}\n", "tokens[0].token: 513 characters"},
		"token with a newline": {"tokens:\n- {name: a, token: \"" + secret + "\\n\"}\n", "visible ASCII"},
		"number as token":      {"tokens:\n- {name: a, token: 12345678901234567}\n", "/tokens/0/token"},
		"same token":           {"tokens:\n- {name: a, token: " + secret + "}\n- {name: b, token: " + secret + "}\n", "tokens[1].token"},
		"same name elsewhere":  {"tokens:\n- {name: a, token: " + secret + "}\n- {name: a, token: " + secret + "-b, namespaces: [x]}\n", "tokens[1].name"},
		"odd namespace":        {"tokens:\n- {name: a, token: " + secret + ", namespaces: [\"*\"]}\n", "namespaces[0]"},
		"odd selector":         {"tokens:\n- {name: a, token: " + secret + ", selector: {\"a b\": c}}\n", "selector"},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := parse([]byte(tc.text))
			switch {
			case tc.wants == "" && (err != nil || len(set) == 0):
				t.Errorf("%v, %d principals", err, len(set))
			case tc.wants != "" && (err == nil || !strings.Contains(err.Error(), tc.wants)):
				t.Errorf("%v, want it to say %q", err, tc.wants)
			case err != nil && strings.Contains(err.Error(), secret[:8]):
				t.Errorf("the error shows a token: %v", err)
			}
		})
	}
}

// rotation is a token file in use.
type rotation struct {
	t    *testing.T
	path string
	set  *Tokens

	mu   sync.Mutex
	logs strings.Builder
}

func (r *rotation) Write(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs.WriteString(text + "\n")
}

func (r *rotation) logged() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.logs.String()
}

func (r *rotation) until(what string, done func() bool) {
	r.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !done(); <-tick.C {
		if time.Now().After(deadline) {
			r.t.Fatalf("not within 20 s: %s; log:\n%s", what, r.logged())
		}
	}
}

func (r *rotation) knows(token string) bool {
	_, ok := r.set.Principal(sha256.Sum256([]byte(token)))
	return ok
}

func content(token string) []byte { return []byte("tokens:\n- {name: a, token: " + token + "}\n") }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, path string) *rotation {
	t.Helper()
	r := &rotation{t: t, path: path}
	set, err := Load(path, clock.RealClock{}, funcr.New(func(_, args string) { r.Write(args) }, funcr.Options{}))
	must(t, err)
	r.set = set
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- set.Start(ctx) }()
	t.Cleanup(func() { cancel(); must(t, <-ended) })
	return r
}

func TestTokensAreRotatedLive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	must(t, os.WriteFile(path, content(secret), 0o600))
	r := start(t, path)
	if !r.set.Accepted() || !r.knows(secret) || r.knows("somebody-else-entirely") {
		t.Fatal("the first content is not in force")
	}
	must(t, os.WriteFile(path, content(secret+"-2"), 0o600))
	r.until("a file written in place", func() bool { return r.knows(secret+"-2") && !r.knows(secret) })
	must(t, os.WriteFile(path+".new", content(secret+"-3"), 0o600))
	must(t, os.Rename(path+".new", path))
	r.until("a file renamed over", func() bool { return r.knows(secret + "-3") })

	for what, spoil := range map[string]func(){
		"empty": func() { must(t, os.WriteFile(path, nil, 0o600)) },
		"wrong": func() { must(t, os.WriteFile(path, []byte("tokens: "+secret), 0o600)) },
		"gone":  func() { must(t, os.Remove(path)) },
		"a pipe": func() {
			must(t, os.RemoveAll(path))
			must(t, syscall.Mkfifo(path, 0o600))
		},
		"too large": func() { must(t, os.WriteFile(path, make([]byte, maxBytes+1), 0o600)) },
	} {
		before := strings.Count(r.logged(), "stay in force")
		spoil()
		r.until(what, func() bool { return strings.Count(r.logged(), "stay in force") > before })
		if r.set.Accepted() {
			t.Errorf("%s: it counts as accepted", what)
		}
		if !r.knows(secret + "-3") {
			t.Errorf("%s: the tokens before are out of force", what)
		}
		again := strings.Count(r.logged(), "was read again")
		must(t, os.RemoveAll(path))
		must(t, os.WriteFile(path, content(secret+"-3"), 0o600))
		r.until(what+", mended", func() bool { return strings.Count(r.logged(), "was read again") > again })
	}
	must(t, os.WriteFile(path, content(secret+"-4"), 0o600))
	r.until("mended", func() bool { return r.knows(secret+"-4") && r.set.Accepted() })
	if strings.Contains(r.logged(), secret) {
		t.Errorf("the log shows a token:\n%s", r.logged())
	}
}

// The kubelet exchanges a folder behind a symbolic link; neither the file nor its link is written.
func TestASecretVolumeIsFollowed(t *testing.T) {
	root := t.TempDir()
	publish := func(version, token string) {
		dir := filepath.Join(root, version)
		must(t, os.Mkdir(dir, 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "tokens.yaml"), content(token), 0o600))
		must(t, os.Symlink(version, filepath.Join(root, "..data_tmp")))
		must(t, os.Rename(filepath.Join(root, "..data_tmp"), filepath.Join(root, "..data")))
	}
	publish("..1", secret)
	must(t, os.Symlink(filepath.Join("..data", "tokens.yaml"), filepath.Join(root, "tokens.yaml")))
	r := start(t, filepath.Join(root, "tokens.yaml"))
	for i := range 3 {
		token := fmt.Sprintf("%s-%d", secret, i)
		publish(fmt.Sprintf("..%d", i+2), token)
		r.until("version "+token, func() bool { return r.knows(token) })
	}
}

func TestLoadFailsClearly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if _, err := Load(path, clock.RealClock{}, logr.Discard()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("no file: %v", err)
	}
	must(t, os.WriteFile(path, nil, 0o600))
	if _, err := Load(path, clock.RealClock{}, logr.Discard()); err == nil || !strings.Contains(err.Error(), "0 entries") {
		t.Errorf("an empty file: %v", err)
	}
}
