package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestAuthFileContent(t *testing.T) {
	cases := []struct {
		name, content, reason string
		mode                  os.FileMode
		ok                    bool
	}{
		{"plain", "user:secret", "", 0o600, true},
		{"line break at the end", "user:secret\n", "", 0o400, true},
		{"colon in the password", "user:sec:ret\n", "the first colon separates", 0o600, true},
		{"group readable", "user:secret\n", "others could read it", 0o640, false},
		{"world readable", "user:secret\n", "others could read it", 0o604, false},
		{"group writable", "user:secret\n", "others could change it", 0o620, false},
		{"empty", "", "no line", 0o600, false},
		{"two lines", "user:secret\nuser:secret2\n", "which one", 0o600, false},
		{"empty second line", "user:secret\n\n", "exactly one line", 0o600, false},
		{"windows line break", "user:secret\r\n", "the CR would belong to the password", 0o600, false},
		{"no colon", "usersecret\n", "no pair", 0o600, false},
		{"no user", ":secret\n", "empty", 0o600, false},
		{"no password", "user:\n", "empty", 0o600, false},
		{"nul", "user:sec\x00ret\n", "control character", 0o600, false},
		{"too long", "user:" + strings.Repeat("secret", 1000), "bounded", 0o600, false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "auth")
			write(t, path, tc.content, tc.mode)
			_, err := openCredentials(path, clocktesting.NewFakePassiveClock(time.Now()), logr.Discard())
			if (err == nil) != tc.ok {
				t.Fatalf("%s: got %v", tc.reason, err)
			}
			if err != nil && (strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "--auth-file")) {
				t.Fatalf("error shows the secret or not the flag: %v", err)
			}
		})
	}
	for _, path := range []string{"/nonexistent/auth", t.TempDir()} {
		if _, err := openCredentials(path, clocktesting.NewFakePassiveClock(time.Now()), logr.Discard()); err == nil {
			t.Errorf("%s was accepted", path)
		}
	}
}

func TestCredentialsRotate(t *testing.T) {
	var log strings.Builder
	logger := funcr.NewJSON(func(line string) { log.WriteString(line + "\n") }, funcr.Options{})
	path := filepath.Join(t.TempDir(), "auth")
	clk := clocktesting.NewFakePassiveClock(time.Now())
	write(t, path, "user:first", 0o600)
	f, err := openCredentials(path, clk, logger)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(reason, password string) {
		t.Helper()
		for _, candidate := range []string{"first", "second", "third"} {
			if got := f.Authorize("user", candidate, true); got != (candidate == password) {
				t.Fatalf("%s: %s is accepted: %t", reason, candidate, got)
			}
		}
	}
	later := func(d time.Duration) { clk.SetTime(clk.Now().Add(d)) }

	expect("at the start", "first")
	write(t, path+".new", "user:second", 0o600)
	rename(t, path+".new", path)
	expect("within the same second nothing is read", "first")
	later(authCheck)
	expect("a second later", "second")

	bad := []struct{ reason, content string }{
		{"half-written", "user:"}, {"two lines", "user:third\nuser:third"}, {"no pair", "third"},
	}
	for _, b := range bad {
		write(t, path, b.content, 0o600)
		later(authCheck)
		expect(b.reason, "second")
		later(authCheck)
		expect(b.reason+", still", "second")
	}
	write(t, path, "user:third", 0o644)
	later(authCheck)
	expect("readable by others", "second")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	later(authCheck)
	expect("absent", "second")
	write(t, path, "user:third", 0o600)
	later(authCheck)
	expect("good again", "third")

	// A file that changes at the same size within one tick of its clock.
	stamp := clk.Now()
	write(t, path, "user:first", 0o600)
	chtimes(t, path, stamp)
	later(authCheck)
	expect("changed", "first")
	write(t, path, "user:third", 0o600)
	chtimes(t, path, stamp)
	later(authCheck)
	expect("changed, same fingerprint", "third")
	if f.Authorize("user", "third", false) || f.Authorize("", "", false) {
		t.Fatal("no credentials were accepted")
	}

	for _, secret := range []string{"first", "second", "third"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("log holds %q:\n%s", secret, log.String())
		}
	}
	if n := strings.Count(log.String(), "exactly one line"); n != len(bad)-1 && n != len(bad) {
		t.Errorf("each problem is logged once, got %d lines:\n%s", n, log.String())
	}
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	// WriteFile obeys the umask and keeps an existing file's mode.
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func chtimes(t *testing.T, path string, at time.Time) {
	t.Helper()
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}
