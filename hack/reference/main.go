// Command reference writes docs/reference from the code: the members of the objects from their CustomResourceDefinitions, those of
// the providers' configuration from the structs that it is decoded into. The references of flags and metrics are written by the
// tests beside them.
//
//	go run ./hack/reference
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// folder is where the pages go, below the root.
const folder = "docs/reference"

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "reference: it takes no arguments, and is run in the root of the repository")
		os.Exit(2)
	}
	if err := write("."); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func write(root string) error {
	all, err := pages(root)
	if err != nil {
		return err
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(root, folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pages returns the text of each page by its name.
func pages(root string) (map[string]string, error) {
	all := map[string]string{}
	for _, o := range objects {
		text, err := object(root, o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.crd, err)
		}
		all[o.page] = text
	}
	text, err := providersConfig(root)
	all["providers-config.md"] = text
	return all, err
}
