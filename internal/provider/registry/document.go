package registry

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxFileSize is the largest configuration, in bytes.
const MaxFileSize = 1 << 20

// document reads the one document of data and refuses the features of YAML that let a text mean something else than it
// seems to. Nothing is expanded on the way, so the work is bounded by the size of data.
//
// Misused features come back as problems beside the root, so that the rest can be checked too; without a root there is
// nothing to check.
func document(data []byte) (root *yaml.Node, ps problems) {
	if len(data) > MaxFileSize {
		ps.add(0, "", "", "the configuration has %d bytes, at most %d are allowed", len(data), MaxFileSize)
		return nil, ps
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		ps.add(0, "", "", "the configuration is empty; write `providers: []` for no providers")
		return nil, ps
	case err != nil:
		return nil, syntaxProblem(err)
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		ps.add(more.Line, "", "", "a second document starts here; only one is allowed")
	case !errors.Is(err, io.EOF):
		return nil, syntaxProblem(err)
	}
	root = doc.Content[0]
	checkPlain(root, "", &ps)
	return root, ps
}

var syntaxLine = regexp.MustCompile(`^line (\d+): `)

// syntaxProblem moves the line of a parser's message to where all messages have it. That line is where the broken
// construct begins or is broken, whichever the parser knows.
func syntaxProblem(err error) (ps problems) {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
	if m := syntaxLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	ps.add(line, "", "", "not valid YAML from here on: %s", text)
	return ps
}

// checkPlain reports anchors, aliases, tags, keys that are not strings and repeated keys, everywhere below n.
func checkPlain(n *yaml.Node, path string, ps *problems) {
	switch {
	case n.Kind == yaml.AliasNode:
		ps.add(n.Line, "", path, "aliases are not supported")
		return
	case n.Anchor != "":
		ps.add(n.Line, "", path, "anchors are not supported")
	case n.Style&yaml.TaggedStyle != 0:
		ps.add(n.Line, "", path, "explicit tags are not supported")
	}
	switch n.Kind {
	case yaml.SequenceNode:
		for i, item := range n.Content {
			checkPlain(item, index(path, i), ps)
		}
	case yaml.MappingNode:
		first := map[string]int{}
		for i := 0; i < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
				ps.add(key.Line, "", path, "keys must be plain strings")
				continue
			}
			if line, ok := first[key.Value]; ok {
				ps.add(key.Line, "", join(path, key.Value), "the key is repeated; it stands on line %d already", line)
			} else {
				first[key.Value] = key.Line
			}
			checkPlain(value, join(path, key.Value), ps)
		}
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
		// Nothing is below a scalar; aliases are reported above, and a document stands only above the root.
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// isNull reports whether n is absent or written as null, which mean the same.
func isNull(n *yaml.Node) bool {
	return n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}
