package boxes_test

import (
	"strings"
	"testing"

	boxes "github.com/egress-proxies/egress-proxies-operator/docs/examples/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// What cannot be meant is refused, by key and line, and never with a password.
func TestConfigRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ block, says string }{
		"no endpoint":          {"tokenFile: /t\nracks: [a]\n", "boxes.endpoint"},
		"http to elsewhere":    {"endpoint: http://boxes.example\ntokenFile: /t\nracks: [a]\n", "boxes.endpoint"},
		"a password":           {"endpoint: https://me:sentinel@boxes.example\ntokenFile: /t\nracks: [a]\n", "boxes.endpoint"},
		"a relative path":      {"endpoint: https://boxes.example\ntokenFile: t\nracks: [a]\n", "boxes.tokenFile"},
		"no racks":             {"endpoint: https://boxes.example\ntokenFile: /t\n", "boxes.racks"},
		"a rack twice":         {"endpoint: https://boxes.example\ntokenFile: /t\nracks: [a, a]\n", "boxes.racks[1]"},
		"a path in a rack":     {"endpoint: https://boxes.example\ntokenFile: /t\nracks: [a/b]\n", "boxes.racks[0]"},
		"a key that is not it": {"endpoint: https://boxes.example\ntokenfile: /t\nracks: [a]\n", "tokenfile"},
	} {
		block, err := registry.ParseBlock(boxes.Type, []byte(tc.block))
		if err != nil {
			t.Fatal(err)
		}
		_, err = boxes.New(t.Context(), provider.Options{Name: "b", Block: block})
		if err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "line ") || strings.Contains(err.Error(), "sentinel") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
