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
	if err := os.WriteFile("guest.qcow2", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"-image", "guest.qcow2", "-logs", "logs", "-hosts", "2", "--", "sh", "-c", "true"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.image != filepath.Join(here, "guest.qcow2") || o.logs != filepath.Join(here, "logs") || o.hosts != 2 {
		t.Errorf("image %q, logs %q, %d hosts: not what was named, below %s", o.image, o.logs, o.hosts, here)
	}
	if want := []string{"sh", "-c", "true"}; !slices.Equal(o.command, want) {
		t.Errorf("command %q, want %q", o.command, want)
	}
	if o, err := parse([]string{"true"}, io.Discard); err != nil || o.hosts != 1 || o.image != "" || o.logs != "" {
		t.Errorf("without flags: got %+v, %v", o, err)
	}
	if o, err := parse([]string{"-check"}, io.Discard); err != nil || !o.check {
		t.Errorf("a check alone takes no command: got %+v, %v", o, err)
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
		{"no host", "want 1 to", []string{"-hosts", "0", "--", "true"}},
		{"too many hosts", "want 1 to", []string{"-hosts", "5", "--", "true"}},
		{"an unknown flag", "not defined", []string{"-no-such-flag", "--", "true"}},
		{"help", flag.ErrHelp.Error(), []string{"-h"}},
	} {
		if _, err := parse(c.args, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.reason, err, c.want)
		}
	}
}
