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
	for _, n := range needs.Unknown(string(script), wanted) {
		t.Errorf("the script does not look for %s of package %s", n.Program, n.Package)
	}
}
