package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestThePodIsSoughtInItsOwnNamespace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	own, empty, none := file("namespace", "egress\n"), file("empty", "\n"), filepath.Join(dir, "none")
	for name, c := range map[string]struct {
		o    options
		file string
		want string
	}{
		"what the flag says":                          {options{podNS: "named", leaderNS: "elections"}, own, "named"},
		"that of the service account":                 {options{leaderNS: "elections"}, own, "egress"},
		"no service account: that of the election":    {options{leaderNS: "elections"}, none, "elections"},
		"an empty file says nothing":                  {options{leaderNS: "elections"}, empty, "elections"},
		"the flag, although there is no other source": {options{podNS: "named"}, none, "named"},
	} {
		if got := podNamespace(&c.o, c.file); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// The installation ID follows from the operator's namespace: naming the Pod's must not make the fleet foreign.
	if a, b := ownNamespace(&options{}), ownNamespace(&options{podNS: "named"}); a != b {
		t.Errorf("--pod-namespace changes the operator's namespace from %q to %q", a, b)
	}
}
