package registry_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

var types = []string{"local", "gcp"}

func TestParseAccepts(t *testing.T) {
	entries, err := registry.Parse([]byte(`# comment
providers:
- name: exits-eu
  type: local
  maxInstances: 20
  namespaces: [crawlers, tests]
  local: {host: a}
- {name: bare, type: gcp, maxInstances: null, gcp: null}
`), types)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 {
		t.Fatalf("got %d entries", len(entries))
	}
	e := entries[0]
	if e.Name != "exits-eu" || e.Type != "local" || e.MaxInstances != 20 || e.Line != 3 ||
		!slices.Equal(e.Namespaces, []string{"crawlers", "tests"}) {
		t.Errorf("entry = %+v", e)
	}
	var cfg struct {
		Host string `json:"host"`
	}
	if err := e.Block().Decode(&cfg); err != nil || cfg.Host != "a" {
		t.Errorf("block decodes to %+v, %v", cfg, err)
	}
	if err := entries[1].Block().Decode(&cfg); err != nil || cfg.Host != "a" {
		t.Errorf("an absent block changed the target or failed: %+v, %v", cfg, err)
	}
	if entries, err := registry.Parse([]byte("providers: []\n"), types); err != nil || len(entries) != 0 {
		t.Errorf("no providers: %v, %v", entries, err)
	}
}

func TestParseRefuses(t *testing.T) {
	const head = "providers:\n"
	for _, tc := range []struct {
		reason, text string
		want         []string
	}{
		{"nothing at all", "", []string{"the configuration is empty; write `providers: []` for no providers"}},
		{"only comments", "# soon\n", []string{"the configuration is empty; write `providers: []` for no providers"}},
		{"a null document", "---\n", []string{"line 2: want `providers:` with a list of entries"}},
		{"a list at the top", "- a\n", []string{"line 1: want `providers:` with a list of entries"}},
		{"null providers", head, []string{"line 1: providers: the key is missing or empty; write `providers: []` for no providers"}},
		{"providers not a list", "providers: {a: b}", []string{"line 1: providers: want a list"}},
		{"an unknown top key", "providers: []\nversion: 1", []string{"line 2: version: unknown key"}},
		{"the top key in another case", "Providers: []", []string{
			"line 1: providers: the key is missing or empty; write `providers: []` for no providers",
			`line 1: Providers: unknown key; keys are case-sensitive, it is called "providers"`}},
		{"no YAML", head + "- {name: a", []string{"line 1: not valid YAML from here on: did not find expected ',' or '}'"}},
		{"two documents", "providers: []\n---\nproviders: []\n", []string{"line 2: a second document starts here; only one is allowed"}},
		{"an empty second document", "providers: []\n---\n", []string{"line 2: a second document starts here; only one is allowed"}},
		{"an anchor and an alias", head + "- {name: a, type: &t local}\n- {name: b, type: *t}\n", []string{
			"line 2: providers[0].type: anchors are not supported",
			"line 3: providers[1].type: aliases are not supported"}},
		{"a merge key", head + "- name: a\n  type: local\n  <<: {maxInstances: 1}\n", []string{
			"line 4: providers[0]: keys must be plain strings",
			`line 4: provider "a": <<: unknown key`}},
		{"a tag", head + "- {name: !!str a, type: local}\n", []string{"line 2: providers[0].name: explicit tags are not supported"}},
		{"a key that is a number", head + "- {name: a, type: local, 1: x}\n", []string{
			"line 2: providers[0]: keys must be plain strings",
			`line 2: provider "a": 1: unknown key`}},
		{"a repeated key", head + "- name: a\n  type: local\n  name: b\n", []string{
			"line 4: providers[0].name: the key is repeated; it stands on line 2 already"}},
		{"a repeated key deep in a block", head + "- name: a\n  type: local\n  local:\n    x: {y: 1,\n      y: 2}\n", []string{
			"line 6: providers[0].local.x.y: the key is repeated; it stands on line 5 already"}},
		{"an entry that is no mapping", head + "- exits\n", []string{"line 2: providers[0]: want a mapping with at least name and type"}},
		{"a null entry", head + "-\n", []string{"line 2: providers[0]: null is not an item"}},
		{"no name, no type", head + "- {}\n", []string{
			"line 2: providers[0]: name: the key is missing",
			"line 2: providers[0]: type: the key is missing; known types: gcp, local"}},
		{"a name that is a number", head + "- {name: 12, type: local}\n", []string{"line 2: provider \"12\": name: want a string; put it in quotes"}},
		{"an empty name", head + "- {name: '', type: local}\n", []string{
			`line 2: providers[0]: name: "" is not a usable name: want at most 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit`}},
		{"a name in capitals", head + "- {name: Exits, type: local}\n", []string{
			`line 2: providers[0]: name: "Exits" is not a usable name: want at most 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit`}},
		{"a name of 64 characters", head + "- {name: " + strings.Repeat("a", 64) + ", type: local}\n", []string{
			`line 2: providers[0]: name: "` + strings.Repeat("a", 64) + `" is not a usable name: want at most 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit`}},
		{"a name twice", head + "- {name: a, type: local}\n- {name: a, type: gcp}\n", []string{`line 3: provider "a": name: "a" is used on line 2 already`}},
		{"an unknown type", head + "- {name: a, type: aws}\n", []string{`line 2: provider "a": type: "aws" is not known; known types: gcp, local`}},
		{"a type in capitals", head + "- {name: a, type: Local}\n", []string{`line 2: provider "a": type: "Local" is not known; known types: gcp, local`}},
		{"an unknown key", head + "- name: a\n  type: local\n  maxInstance: 1\n", []string{`line 4: provider "a": maxInstance: unknown key`}},
		{"a key in another case", head + "- {name: a, type: local, maxinstances: 1}\n", []string{
			`line 2: provider "a": maxinstances: unknown key; keys are case-sensitive, it is called "maxInstances"`}},
		{"a block in another case", head + "- {name: a, type: local, Local: {}}\n", []string{
			`line 2: provider "a": Local: unknown key; keys are case-sensitive, it is called "local"`}},
		{"another type's block", head + "- name: a\n  type: local\n  gcp: {}\n", []string{
			`line 4: provider "a": gcp: the block belongs to type "gcp", the entry is of type "local"`}},
		{"a block that is no mapping", head + "- {name: a, type: local, local: [1]}\n", []string{`line 2: provider "a": local: want a mapping of keys to values`}},
		{"a negative cap", head + "- {name: a, type: local, maxInstances: -1}\n", []string{`line 2: provider "a": maxInstances: -1 is not within 0 to 1000000`}},
		{"a huge cap", head + "- {name: a, type: local, maxInstances: 1000001}\n", []string{`line 2: provider "a": maxInstances: 1000001 is not within 0 to 1000000`}},
		{"a fraction as cap", head + "- {name: a, type: local, maxInstances: 1.5}\n", []string{`line 2: provider "a": maxInstances: want a whole decimal number of at most 64 bits`}},
		{"an octal cap", head + "- {name: a, type: local, maxInstances: 010}\n", []string{`line 2: provider "a": maxInstances: want a whole decimal number of at most 64 bits`}},
		{"namespaces not a list", head + "- {name: a, type: local, namespaces: x}\n", []string{`line 2: provider "a": namespaces: want a list`}},
		{"bad namespaces", head + "- name: a\n  type: local\n  namespaces:\n  - ok\n  - No\n  - ok\n", []string{
			`line 6: provider "a": namespaces[1]: "No" is not a namespace: want at most 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit`,
			`line 7: provider "a": namespaces[2]: "ok" is repeated`}},
		{"a null namespace", head + "- {name: a, type: local, namespaces: [null]}\n", []string{
			`line 2: provider "a": namespaces[0]: null is not an item`,
			`line 2: provider "a": namespaces[0]: "" is not a namespace: want at most 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit`}},
		{"several entries wrong at once", head + "- {name: a, type: x}\n- {name: b, type: local, z: 1}\n- {type: gcp}\n", []string{
			`line 2: provider "a": type: "x" is not known; known types: gcp, local`,
			`line 3: provider "b": z: unknown key`,
			"line 4: providers[2]: name: the key is missing"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			_, err := registry.Parse([]byte(tc.text), types)
			if err == nil {
				t.Fatal("accepted")
			}
			if got := strings.Split(err.Error(), "\n"); !slices.Equal(got, tc.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(tc.want, "\n  "))
			}
		})
	}
}

func TestParseBoundsItsWork(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'z'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 9) + "]\n"
	}
	for reason, text := range map[string]string{
		"aliases of aliases": bomb,
		"too deep":           "providers: " + strings.Repeat("[", 200_000),
		"too large":          "providers: []\n#" + strings.Repeat("x", registry.MaxFileSize),
		"not UTF-8":          "providers: [\xff]",
	} {
		if _, err := registry.Parse([]byte(text), types); err == nil {
			t.Errorf("%s: accepted", reason)
		}
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "providers.yaml")
	if _, err := registry.Load(path, types); err == nil {
		t.Error("a missing file was accepted")
	}
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("providers: [{name: a, type: local}]")
	if entries, err := registry.Load(path, types); err != nil || len(entries) != 1 {
		t.Errorf("Load = %v, %v", entries, err)
	}
	write("providers: []\n" + strings.Repeat("#\n", registry.MaxFileSize))
	if _, err := registry.Load(path, types); err == nil || !strings.Contains(err.Error(), "at most 1048576") {
		t.Errorf("a file over the limit: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("providers:\n- {name: a, type: local, local: {x: [1, {y: 2}]}}\n")
	f.Add("providers: &a [*a]\n---\n")
	f.Add("? {a: b}\n: !!binary x\n")
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := registry.Parse([]byte(text), types)
		for _, e := range entries {
			if err != nil || e.Block() == nil || e.Name == "" {
				t.Errorf("entry %+v beside error %v", e, err)
			}
		}
	})
}
