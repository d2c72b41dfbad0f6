// Package sources reads what is written about the operator's metrics: rules, pages and what the operator exposes.
package sources

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// RulesDir is the folder of the PrometheusRules, from the repository's root.
const RulesDir = "config/components/monitoring"

// Rules are the rule groups of one or more PrometheusRules.
type Rules struct {
	// Groups are as Prometheus takes them in a file.
	Groups []any
	// Exprs are the expressions, by the name of the record or alert.
	Exprs map[string]string
}

// ReadRules reads every PrometheusRule among the YAML files of a folder, which may hold others. It errors when there is none.
func ReadRules(dir string) (Rules, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return Rules{}, err
	}
	out := Rules{Exprs: map[string]string{}}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return Rules{}, err
		}
		if err := out.add(data); err != nil {
			return Rules{}, fmt.Errorf("%s: %w", file, err)
		}
	}
	if len(out.Groups) == 0 {
		return Rules{}, fmt.Errorf("%s: no PrometheusRule", dir)
	}
	return out, nil
}

func (r *Rules) add(data []byte) error {
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var whole struct {
			Kind string
			Spec struct{ Groups []any }
		}
		var typed struct {
			Spec struct {
				Groups []struct {
					Rules []struct{ Record, Alert, Expr string }
				}
			}
		}
		if err := sigsyaml.Unmarshal(document, &whole); err != nil {
			return err
		}
		if whole.Kind != "PrometheusRule" {
			continue
		}
		if err := sigsyaml.Unmarshal(document, &typed); err != nil {
			return err
		}
		r.Groups = append(r.Groups, whole.Spec.Groups...)
		for _, g := range typed.Spec.Groups {
			for _, rule := range g.Rules {
				name := rule.Record + rule.Alert
				if name == "" || rule.Expr == "" || r.Exprs[name] != "" {
					return fmt.Errorf("rule %q has no name or expression, or its name is taken", name)
				}
				r.Exprs[name] = rule.Expr
			}
		}
	}
}

// File returns the groups as a file that Prometheus loads.
func (r Rules) File() ([]byte, error) { return sigsyaml.Marshal(map[string]any{"groups": r.Groups}) }
