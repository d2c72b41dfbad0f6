package docs

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/gcp"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kubernetes"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local"
)

// TestTheFeatureMatrix: what docs/providers.md says each provider can do is what its type can do, as far as that shows there.
func TestTheFeatureMatrix(t *testing.T) {
	types := []reflect.Type{
		reflect.TypeFor[*local.Provider](), reflect.TypeFor[*kubernetes.Provider](), reflect.TypeFor[*gcp.Provider](), reflect.TypeFor[*kvm.Provider](),
	}
	page := read(t, "docs/providers.md")
	for row, able := range map[string]reflect.Type{
		"changed credentials reach the running instance":            reflect.TypeFor[provider.CredentialUpdater](),
		"tells by itself when an instance ends":                     reflect.TypeFor[provider.Watcher](),
		"checks its targets":                                        reflect.TypeFor[provider.Checker](),
		"refuses a change of its entry that would disown instances": reflect.TypeFor[provider.Scoper](),
	} {
		line := regexp.MustCompile(`(?m)^\| ` + row + `.*$`).FindString(page)
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != len(types)+1 {
			t.Errorf("docs/providers.md has no row %q with a cell for each provider: %q", row, line)
			continue
		}
		for i, typ := range types {
			if says := strings.HasPrefix(cells[i+1], "yes"); says != typ.Implements(able) {
				t.Errorf("docs/providers.md: %s: %s: it says %q, the type says %t", row, typ, cells[i+1], !says)
			}
		}
	}
}

// TestTheReasons: docs/troubleshooting.md has a row for each reason that a condition of a Proxy can have.
func TestTheReasons(t *testing.T) {
	page := read(t, "docs/troubleshooting.md")
	found := 0
	for _, m := range regexp.MustCompile(`(?m)^\tReason\w+ += "(\w+)"`).FindAllStringSubmatch(read(t, "api/v1alpha1/names.go"), -1) {
		found++
		if !regexp.MustCompile("(?m)^\\| .*`" + m[1] + "`").MatchString(page) {
			t.Errorf("docs/troubleshooting.md has no row for the reason %s", m[1])
		}
	}
	if found < 20 {
		t.Fatalf("only %d reasons were found in api/v1alpha1/names.go", found)
	}
}
