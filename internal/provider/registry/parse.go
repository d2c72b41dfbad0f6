package registry

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// MaxInstancesLimit is the largest maxInstances.
const MaxInstancesLimit = 1_000_000

// Entry is one entry of the configuration, checked as far as that goes without its type's own code.
type Entry struct {
	// Name is unique and a DNS-1123 label of at most 63 characters.
	Name string
	Type string
	// MaxInstances caps the instances of the entry; 0 is no cap.
	MaxInstances int32
	// Namespaces that may use the entry; empty means all.
	Namespaces []string
	// Line where the entry begins.
	Line int

	block     *block
	canonical []byte
}

// Block returns the type's part of the entry.
func (e Entry) Block() provider.Block { return e.block }

// Load reads and parses the file at path; see Parse. It blocks as long as reading does and never reads more than
// MaxFileSize plus one bytes.
func Load(path string, types []string) ([]Entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return Parse(data, types)
}

// Parse checks the configuration and returns its entries in the order of the file. types are the known types. The
// error joins every problem found, each a *Problem; entries are returned only when there is none.
func Parse(data []byte, types []string) ([]Entry, error) {
	root, ps := document(data)
	if root == nil {
		return nil, ps.err()
	}
	var file struct {
		Providers []node `json:"providers"`
	}
	d := decoder{ps: ps}
	if root.Kind != yaml.MappingNode {
		d.fail(root, "", "want `providers:` with a list of entries")
		return nil, d.ps.err()
	}
	if providers := child(root, "providers"); providers == nil || isNull(providers) {
		d.fail(root, "providers", "the key is missing or empty; write `providers: []` for no providers")
	}
	d.structure(root, addressable(&file), "")
	p := parser{types: types, names: map[string]int{}, problems: d.ps}
	entries := make([]Entry, 0, len(file.Providers))
	for i, n := range file.Providers {
		if n.Node != nil { // null has been reported
			entries = append(entries, p.entry(i, n.Node))
		}
	}
	if err := p.problems.err(); err != nil {
		return nil, err
	}
	return entries, nil
}

type parser struct {
	types    []string
	names    map[string]int
	problems problems
}

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

const labelRule = "want at most 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit"

func (p *parser) entry(i int, n *yaml.Node) Entry {
	e := Entry{Line: n.Line}
	var common struct {
		Name         string   `json:"name"`
		Type         string   `json:"type"`
		MaxInstances int64    `json:"maxInstances"`
		Namespaces   []string `json:"namespaces"`
	}
	d := decoder{entry: index("providers", i), siblings: p.types}
	if n.Kind != yaml.MappingNode {
		d.fail(n, "", "want a mapping with at least name and type")
		p.problems = append(p.problems, d.ps...)
		return e
	}
	if name := child(n, "name"); name != nil && label.MatchString(name.Value) {
		d.entry = fmt.Sprintf("provider %q", name.Value)
	}
	// Blocks are keyed by type, so they are taken out before the common keys are read strictly.
	rest := *n
	rest.Content = nil
	for k := 0; k < len(n.Content); k += 2 {
		if !slices.Contains(p.types, n.Content[k].Value) {
			rest.Content = append(rest.Content, n.Content[k], n.Content[k+1])
		}
	}
	d.structure(&rest, addressable(&common), "")
	e.Name, e.Type, e.Namespaces = common.Name, common.Type, common.Namespaces
	p.checkName(n, &d, e)
	if common.MaxInstances < 0 || common.MaxInstances > MaxInstancesLimit {
		d.fail(child(n, "maxInstances"), "maxInstances", "%d is not within 0 to %d", common.MaxInstances, MaxInstancesLimit)
	} else {
		e.MaxInstances = int32(common.MaxInstances)
	}
	for k, ns := range e.Namespaces {
		switch at := child(n, "namespaces").Content[k]; {
		case !label.MatchString(ns):
			d.fail(at, index("namespaces", k), "%q is not a namespace: %s", ns, labelRule)
		case slices.Contains(e.Namespaces[:k], ns):
			d.fail(at, index("namespaces", k), "%q is repeated", ns)
		}
	}
	e.block = p.block(n, &d, e.Type)
	var err error
	if e.canonical, err = toJSON(n); err != nil {
		d.fail(n, "", "cannot be written as JSON: %v", err)
	}
	p.problems = append(p.problems, d.ps...)
	return e
}

func (p *parser) checkName(n *yaml.Node, d *decoder, e Entry) {
	at := child(n, "name")
	switch {
	case isNull(at):
		d.fail(n, "name", "the key is missing")
	case e.Name == "" && at.Kind == yaml.ScalarNode && at.ShortTag() != "!!str":
		// Reported as a wrong type already.
	case !label.MatchString(e.Name):
		d.fail(at, "name", "%q is not a usable name: %s", e.Name, labelRule)
	case p.names[e.Name] > 0:
		d.fail(at, "name", "%q is used on line %d already", e.Name, p.names[e.Name])
	default:
		p.names[e.Name] = at.Line
	}
}

// block checks the type and returns its block; a block of another type is most likely a slip of a copy.
func (p *parser) block(n *yaml.Node, d *decoder, typ string) *block {
	b := &block{entry: d.entry, key: typ, line: n.Line}
	switch at := child(n, "type"); {
	case isNull(at):
		d.fail(n, "type", "the key is missing; known types: %s", strings.Join(slices.Sorted(slices.Values(p.types)), ", "))
	case typ != "" && !slices.Contains(p.types, typ):
		d.fail(at, "type", "%q is not known; known types: %s", typ, strings.Join(slices.Sorted(slices.Values(p.types)), ", "))
	}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case !slices.Contains(p.types, key.Value):
		case key.Value != typ:
			d.fail(key, key.Value, "the block belongs to type %q, the entry is of type %q", key.Value, typ)
		case !isNull(value) && value.Kind != yaml.MappingNode:
			d.fail(value, key.Value, "want a mapping of keys to values")
		case !isNull(value):
			b.line, b.node = key.Line, value
		}
	}
	return b
}
