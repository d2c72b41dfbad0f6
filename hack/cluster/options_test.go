package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"a.tar", "b.tar", "p.tar"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"-image", "a.tar", "-image", "b.tar", "-pause", "p.tar", "-logs", "logs", "--", "sh", "-c", "true"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Join(here, "a.tar"), filepath.Join(here, "b.tar")}; !slices.Equal(o.images, want) {
		t.Errorf("images %q, want %q", o.images, want)
	}
	if o.pause != filepath.Join(here, "p.tar") || o.logs != filepath.Join(here, "logs") {
		t.Errorf("pause %q, logs %q: not the files named, below %s", o.pause, o.logs, here)
	}
	if want := []string{"sh", "-c", "true"}; !slices.Equal(o.command, want) {
		t.Errorf("command %q, want %q", o.command, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		reason, want string
		args         []string
	}{
		{"nothing to run", "no command", nil},
		{"a command that is not there, before anything is done", "no-such-command", []string{"--", "no-such-command"}},
		{"an image that is not there", "not a file", []string{"-image", "no-such-file", "--", "true"}},
		{"an image that is a folder", "not a file", []string{"-image", ".", "--", "true"}},
		{"a pause image that is not there", "not a file", []string{"-pause", "no-such-file", "--", "true"}},
		{"an unknown flag", "not defined", []string{"-no-such-flag", "--", "true"}},
		{"help", flag.ErrHelp.Error(), []string{"-h"}},
	} {
		if _, err := parse(c.args, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.reason, err, c.want)
		}
	}
}
