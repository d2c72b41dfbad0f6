package bom

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// libraryModule brings CycloneDX's own schemas along.
const libraryModule = "github.com/CycloneDX/cyclonedx-go"

// Validate holds the bill against CycloneDX's schema. supply is the folder of this module, in which Go knows where the
// schemas are.
func Validate(ctx context.Context, bill []byte, supply string) error {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", libraryModule)
	cmd.Dir = supply
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("where the schemas of CycloneDX are: %w", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "schema")
	c := jsonschema.NewCompiler()
	main := "bom-" + spec.String() + ".schema.json"
	for name, file := range map[string]string{main: main, "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json"} {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := c.AddResource("http://cyclonedx.org/schema/"+name, schema); err != nil {
			return err
		}
	}
	schema, err := c.Compile("http://cyclonedx.org/schema/" + main)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(bill))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}
