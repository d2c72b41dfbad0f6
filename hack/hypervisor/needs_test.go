package main

import (
	"os"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/hack/needs"
)

// TestInstallKnowsEveryNeed keeps the script and the check together.
func TestInstallKnowsEveryNeed(t *testing.T) {
	script, err := os.ReadFile("../install")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range needs.Unknown(string(script), everything()) {
		t.Errorf("the script does not look for %s of package %s", n.Program, n.Package)
	}
}

func TestEverythingIsAskedForOnce(t *testing.T) {
	seen := map[needs.Need]bool{}
	for _, n := range everything() {
		if seen[n] {
			t.Errorf("%s is asked for twice", n.Program)
		}
		seen[n] = true
	}
}
