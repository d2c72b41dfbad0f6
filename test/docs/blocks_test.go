package docs

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.yaml.in/yaml/v3"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/gcp"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kubernetes"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
	"github.com/egress-proxies/egress-proxies-operator/internal/tokenfile"
)

// TestJSON: blocks of JSON are JSON.
func TestJSON(t *testing.T) {
	found := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.language != "json" {
				continue
			}
			found++
			if !json.Valid([]byte(b.text)) {
				t.Errorf("%s: this is not valid JSON", p.at(b.line))
			}
		}
	}
	if found == 0 {
		t.Fatal("no block of JSON was found")
	}
}

// TestYAML: blocks of YAML can be read, and are what they seem: a configuration of providers can be built, a file of tokens be
// loaded, and a manifest be applied to a real API server.
func TestYAML(t *testing.T) {
	factories := map[string]registry.Factory{
		gcp.Type: gcp.Settings{}.New, kubernetes.Type: kubernetes.New, kvm.Type: kvm.New, local.Type: local.New,
	}
	configs, tokens, manifests := 0, 0, 0
	for _, p := range pages(t) {
		for _, b := range yamlOf(p) {
			for _, doc := range documents(t, p.at(b.line), b.text) {
				switch {
				case doc["providers"] != nil:
					configs++
					if err := build(t, b.text, factories); err != nil {
						t.Errorf("%s: %v", p.at(b.line), err)
					}
				case doc["tokens"] != nil:
					tokens++
					if err := loadTokens(t, b.text); err != nil {
						t.Errorf("%s: %v", p.at(b.line), err)
					}
				case doc["apiVersion"] != nil && doc["kind"] != nil:
					manifests++
					if err := dryRun(t, doc); err != nil {
						t.Errorf("%s: %v", p.at(b.line), err)
					}
				}
			}
		}
	}
	if configs < 4 || tokens < 1 || manifests < 4 {
		t.Fatalf("only %d configurations, %d files of tokens and %d manifests were found", configs, tokens, manifests)
	}
}

var heredoc = regexp.MustCompile(`(?ms)kubectl [^\n]*apply [^\n]*-f - *<<'?EOF'?\n(.*?)^EOF$`)

// variable is one of the shell's. Those in manifests are addresses.
var variable = regexp.MustCompile(`\$[A-Z_]+`)

// yamlOf returns the blocks of YAML, and what blocks of commands give to kubectl.
func yamlOf(p page) []block {
	var out []block
	for _, b := range p.blocks {
		switch b.language {
		case "yaml":
			out = append(out, b)
		case "sh", "bash":
			for _, m := range heredoc.FindAllStringSubmatchIndex(b.text, -1) {
				text := variable.ReplaceAllString(b.text[m[2]:m[3]], "http://127.0.0.1:8080")
				out = append(out, block{language: "yaml", line: b.line + lineAt(b.text, m[2]) - 1, text: text})
			}
		}
	}
	return out
}

// documents reads the documents of a block. One that is no mapping counts as empty.
func documents(t *testing.T, at, text string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for dec := yaml.NewDecoder(strings.NewReader(text)); ; {
		var doc any
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Errorf("%s: %v", at, err)
			return out
		}
		if m, ok := doc.(map[string]any); ok {
			out = append(out, m)
		}
	}
}

// stateDir is the one key whose value is made when it is missing.
var stateDir = regexp.MustCompile(`(stateDir: ).*`)

// build makes the providers of a configuration, which dials nothing.
func build(t *testing.T, text string, factories map[string]registry.Factory) error {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "egress-proxy")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("KUBECONFIG", kubeconfig)
	text = stateDir.ReplaceAllString(text, "${1}"+filepath.Join(dir, "state"))
	entries, err := registry.Parse([]byte(text), registry.Types(factories))
	if err != nil {
		return err
	}
	r, err := registry.Build(t.Context(), entries, factories, registry.BuildOptions{
		Owner:  provider.Owner{Installation: "docs", Cluster: "docs"},
		Window: provider.Window{Clock: clock.RealClock{}, CallTimeout: 30 * time.Second, Skew: 5 * time.Second},
	})
	if err != nil {
		return err
	}
	return r.Close()
}

func loadTokens(t *testing.T, text string) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := tokenfile.Load(path, clock.RealClock{}, logr.Discard())
	return err
}
