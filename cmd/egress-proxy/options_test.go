package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

func TestFlagErrorsNameFlagAndValue(t *testing.T) {
	const here = "--listen=127.0.0.1:0"
	cases := []struct {
		args   []string
		says   []string
		reason string
	}{
		{nil, []string{"--listen"}, "required"},
		{[]string{"--listen=127.0.0.1"}, []string{"--listen", "127.0.0.1"}, "no port"},
		{[]string{"--listen=127.0.0.1:99999"}, []string{"--listen", "99999"}, "port too large"},
		{[]string{"--listen=0.0.0.0:3128"}, []string{"--listen", "0.0.0.0:3128", "open proxy refused"}, "everybody could use it"},
		{[]string{"--listen=:3128"}, []string{"--listen", "open proxy refused"}, "every address"},
		{[]string{"--listen=[::]:3128"}, []string{"open proxy refused"}, "every address"},
		{[]string{"--listen=192.0.2.1:3128"}, []string{"open proxy refused"}, "not loopback"},
		{[]string{"--listen=:3128", "--allow-clients=10.0.0.0/8,0.0.0.0/0"}, []string{"open proxy refused", "0.0.0.0/0"}, "a list that allows everybody"},
		{[]string{"--listen=:3128", "--allow-clients=::/0"}, []string{"open proxy refused", "::/0"}, "a list that allows everybody"},
		{[]string{here, "--exit-address=x"}, []string{"--exit-address", `"x"`}, "no address"},
		{[]string{here, "--exit-address=0.0.0.0"}, []string{"--exit-address", "0.0.0.0"}, "no single address"},
		{[]string{here, "--allow-destinations=10.0.0.1"}, []string{"--allow-destinations", "10.0.0.1"}, "no CIDR"},
		{[]string{here, "--allow-destinations=10.0.0.1/8"}, []string{"--allow-destinations", "10.0.0.0/8"}, "host bits: a slip"},
		{[]string{here, "--allow-clients=10.0.0.0/8,"}, []string{"--allow-clients", "empty"}, "an empty entry"},
		{[]string{here, "--max-header-bytes=1"}, []string{"--max-header-bytes", "1"}, "out of bounds"},
		{[]string{here, "--header-timeout=1h"}, []string{"--header-timeout", "1h"}, "out of bounds"},
		{[]string{here, "--idle-timeout=0"}, []string{"--idle-timeout", "0"}, "0 is not a default here"},
		{[]string{here, "--dial-timeout=-1s"}, []string{"--dial-timeout", "-1s"}, "out of bounds"},
		{[]string{here, "--max-connections=100000"}, []string{"--max-connections", "100000"}, "out of bounds"},
		{[]string{here, "--max-connections=x"}, []string{"-max-connections", "x"}, "no number"},
		{[]string{here, "--shutdown-grace=1h"}, []string{"--shutdown-grace", "1h"}, "out of bounds"},
		{[]string{here, "--ready-fd=1"}, []string{"--ready-fd", "1"}, "standard output is no report"},
		{[]string{here, "--ready-fd=987"}, []string{"--ready-fd", "987"}, "not open"},
		{[]string{here, "--unknown"}, []string{"-unknown"}, "no such flag"},
		{[]string{here, "extra"}, []string{"extra"}, "no arguments"},
	}
	for _, tc := range cases {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(tc.args, &stdout, &stderr); code != exitUsage {
				t.Fatalf("%s: exit code %d, %s", tc.reason, code, stderr.String())
			}
			if strings.Count(stderr.String(), "\n") != 1 {
				t.Errorf("%s: want one line, got %q", tc.reason, stderr.String())
			}
			for _, want := range tc.says {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("%s: %q lacks %q", tc.reason, stderr.String(), want)
				}
			}
		})
	}
}

func TestListeningBeyondLoopback(t *testing.T) {
	cases := [][]string{
		{"--listen=127.0.0.1:0"}, {"--listen=[::1]:0"}, {"--listen=localhost:0"},
		{"--listen=0.0.0.0:0", "--auth-file=x"},
		{"--listen=0.0.0.0:0", "--auth-file=x", "--allow-clients=0.0.0.0/0"},
		{"--listen=0.0.0.0:0", "--allow-clients=192.0.2.0/24"},
	}
	for _, args := range cases {
		o, err := parse(args, nil)
		if err == nil {
			err = o.validate()
		}
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestVersionAndHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"--version"}, &stdout, &stderr); code != exitOK || !regexp.MustCompile(`^egress-proxy \S+, commit \S+ of \S+, go\S+ \w+/\w+\n$`).MatchString(stdout.String()) {
		t.Errorf("exit code %d, %q", code, stdout.String())
	}
	if code := run([]string{"--help"}, &stdout, &stderr); code != exitOK || !strings.Contains(stderr.String(), "-state-file") {
		t.Errorf("exit code %d, %q", code, stderr.String())
	}
}
