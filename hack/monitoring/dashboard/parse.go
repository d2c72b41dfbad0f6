package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// File is where the document is, from the repository's root.
const File = "config/monitoring/dashboard/egress-proxies.json"

// Encode returns the document as it is kept: indented, and with what PromQL is full of unescaped.
func (d Document) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(d)
	return b.Bytes(), err
}

// Read parses the document of that file.
func Read(file string) (Document, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Document{}, err
	}
	d, err := Parse(data)
	if err != nil {
		return Document{}, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}

// Parse parses a document. It errors on members that this package does not know.
func Parse(data []byte) (d Document, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&d)
	return d, err
}

// Graphs returns all panels that have queries, from top to bottom, those of collapsed rows too.
func (d Document) Graphs() (out []Drawn) {
	for _, p := range d.all() {
		if p.Type != "row" {
			out = append(out, p)
		}
	}
	return out
}

func (d Document) all() (out []Drawn) {
	for _, p := range d.Panels {
		out = append(append(out, p), p.Panels...)
	}
	return out
}
