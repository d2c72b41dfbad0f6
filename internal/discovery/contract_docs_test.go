package discovery

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// docs/api.md has a section for each operation, names each code and member, and shows only bodies that the contract allows.
func TestDocumentationKeepsUpWithTheContract(t *testing.T) {
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	c, text := mustContract(t), string(page)
	for name, o := range c.operations {
		_, section, ok := strings.Cut(text, "\n### `"+name+"`\n")
		if !ok {
			t.Errorf("docs/api.md has no section %s", name)
		}
		section, _, _ = strings.Cut(section, "\n##")
		for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(section, -1) {
			if !o.shows(block[1]) {
				t.Errorf("neither body nor answer of %s: %s", name, block[1])
			}
		}
		for status := range o.responses {
			if slices.Contains([]int{401, 413, 415, 500, 503}, status) || status == 400 && len(o.params) < 2 && o.body == nil {
				continue // said once for all operations; bodies that end too early
			}
			if !strings.Contains(section, strconv.Itoa(status)) {
				t.Errorf("docs/api.md does not say what the status %d of %s means", status, name)
			}
		}
	}
	for code := range codesInSource(t) {
		if !strings.Contains(text, "\n| `"+code+"` | ") {
			t.Errorf("docs/api.md does not list the code %s", code)
		}
	}
	for name, v := range c.doc["components"].(map[string]any)["schemas"].(map[string]any) {
		properties, _ := v.(map[string]any)["properties"].(map[string]any)
		for member := range properties {
			if !strings.Contains(text, "`"+member+"`") {
				t.Errorf("docs/api.md does not mention %s of %s", member, name)
			}
		}
	}
}

// shows reports whether text is a body or an answer of the operation.
func (o *operation) shows(text string) bool {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return false
	}
	if o.body != nil && o.body.Validate(v) == nil {
		return true
	}
	for _, r := range o.responses {
		if schema := r.content["application/json"]; schema != nil && schema.Validate(v) == nil {
			return true
		}
	}
	return false
}
