package registry

import (
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// block is a type's part of an entry.
type block struct {
	entry string
	key   string
	// line is that of the key, or of the entry where the block is absent.
	line int
	// node is nil when the block is absent.
	node *yaml.Node
}

var _ provider.Block = (*block)(nil)

// ParseBlock returns the block of the given type that data is, for tests of providers: data holds what would stand
// below the type's key. Lines in errors count from the start of data.
func ParseBlock(typ string, data []byte) (provider.Block, error) {
	root, ps := document(data)
	if err := ps.err(); err != nil {
		return nil, err
	}
	return &block{entry: `provider "test"`, key: typ, line: root.Line, node: root}, nil
}

// Decode implements provider.Block.
func (b *block) Decode(into any) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("registry: Decode wants a pointer to a struct, not %T", into)
	}
	d := decoder{entry: b.entry}
	d.value(b.node, v.Elem(), b.key)
	return d.ps.err()
}

// Errorf implements provider.Block.
func (b *block) Errorf(key, format string, args ...any) error {
	path := b.key
	if key != "" {
		path = join(b.key, key)
	}
	return &Problem{Line: b.find(key), Entry: b.entry, Key: path, Text: fmt.Sprintf(format, args...)}
}

// find returns the line of the value at the path, or of the innermost value on the way there.
func (b *block) find(path string) int {
	n, line := b.node, b.line
	for n != nil && path != "" {
		var name string
		name, path = step(path)
		next := child(n, name)
		if next == nil {
			break
		}
		n, line = next, next.Line
	}
	return line
}

// step splits the first member off a path: "pools[0].listen" into "pools" and "[0].listen".
func step(path string) (first, rest string) {
	for i := 1; i < len(path); i++ {
		switch path[i] {
		case '.':
			return path[:i], path[i+1:]
		case '[':
			return path[:i], path[i:]
		}
	}
	return path, ""
}

func child(n *yaml.Node, name string) *yaml.Node {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				return n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			if index("", i) == name {
				return item
			}
		}
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
		// They have no children to go on to.
	}
	return nil
}
