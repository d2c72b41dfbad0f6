package manifests

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheImageSaysWhatIsInIt looks from outside at what a platform team asks of an image: of which version its programs are,
// and papers that are about exactly these programs.
func TestTheImageSaysWhatIsInIt(t *testing.T) {
	operator := program(t)
	papers := filepath.Join(strings.TrimSuffix(operator, "/usr/local/bin/operator"), "usr/share/doc/egress-proxies-operator")
	read := func(name string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(papers, name))
		must(t, err)
		return string(data)
	}
	bill := read("sbom.cdx.json")
	for _, name := range []string{"operator", "egress-proxy"} {
		file := filepath.Join(filepath.Dir(operator), name)
		out, err := exec.CommandContext(t.Context(), file, "--version").Output()
		must(t, err)
		if want := name + " under-test, commit "; !strings.HasPrefix(string(out), want) {
			t.Errorf("%q, want %q…", out, want)
		}
		data, err := os.ReadFile(file)
		must(t, err)
		if sum := sha256.Sum256(data); !strings.Contains(bill, hex.EncodeToString(sum[:])) {
			t.Errorf("the bill of materials is not about this %s", name)
		}
	}
	for _, module := range []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "golang.org/x/crypto"} {
		if !strings.Contains(bill, `"name": "`+module+`"`) || !strings.Contains(read("THIRD-PARTY-NOTICES"), "\n"+module+" v") {
			t.Errorf("%s is missing in the papers", module)
		}
	}
	if ours, err := os.ReadFile("../../LICENSE"); err != nil || read("LICENSE") != string(ours) {
		t.Errorf("the licence is not this project's: %v", err)
	}
}
