//go:build linux

package main

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/hack/cluster/node"
)

func TestAStageInheritsThePlanAndLeavesNoTrace(t *testing.T) {
	plan := node.Config{Dir: "/d", Logs: "/l", ControlPlane: "/c", Node: "/n", Pause: "/p", Images: []string{"/a b"}, Command: []string{"sh", "-c", "echo \"$X\"\n"}}
	env, err := environment(stageInside, plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range env[len(env)-2:] {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
	stage, got, err := inherited()
	if err != nil {
		t.Fatal(err)
	}
	if stage != stageInside || !reflect.DeepEqual(got, plan) {
		t.Errorf("got %s, %+v, want %s, %+v", stage, got, stageInside, plan)
	}
	for _, name := range []string{envStage, envPlan} {
		if value, there := os.LookupEnv(name); there {
			t.Errorf("%s=%s would reach the command", name, value)
		}
	}
	if stage, _, err := inherited(); stage != "" || err != nil {
		t.Errorf("without any: got %q, %v", stage, err)
	}
}

func TestTail(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"a\n", "a"},
		{"a\nb\n", "a\nb"},
		{"a\nb\nc\n\n", "b\nc"},
	} {
		if got := tail(c.text, 2); got != c.want {
			t.Errorf("tail(%q, 2) = %q, want %q", c.text, got, c.want)
		}
	}
}
