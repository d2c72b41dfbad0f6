package bom_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/egress-proxies/egress-proxies-operator/hack/supply/bom"
	"github.com/egress-proxies/egress-proxies-operator/hack/supply/licences"
	"github.com/egress-proxies/egress-proxies-operator/hack/supply/shipped"
)

const root = "../../.."

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func build(t *testing.T) (*shipped.Programs, []licences.Found) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "egress-proxy")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", file, "./cmd/egress-proxy")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p, err := shipped.Read(file)
	must(t, err)
	papers, err := p.Sources(t.Context(), root)
	must(t, err)
	found, err := licences.Find(papers)
	must(t, err)
	return p, found
}

func TestABillIsWholeAndSaysSoOnlyOfItsPrograms(t *testing.T) {
	p, found := build(t)
	s := bom.Subject{Version: "v1.2.3", Date: "2026-01-02T03:04:05Z", Files: map[string]string{"/b": strings.Repeat("b", 64), "/a": strings.Repeat("a", 64)}}
	bill, err := bom.Make(p, found, s)
	must(t, err)
	again, err := bom.Make(p, found, s)
	must(t, err)
	if !bytes.Equal(bill, again) {
		t.Error("two bills of the same programs differ")
	}
	must(t, bom.Validate(t.Context(), bill, ".."))
	must(t, bom.Verify(bill, p))

	s.Version = "v1.2.4"
	other, err := bom.Make(p, found, s)
	must(t, err)
	if serial(t, other) == serial(t, bill) {
		t.Error("another bill has the same serial number")
	}
	s.Date = "yesterday"
	if _, err := bom.Make(p, found, s); err == nil || !strings.Contains(err.Error(), `date "yesterday"`) {
		t.Errorf("a date that is none: %v", err)
	}

	const logr = "github.com/go-logr/logr"
	for name, c := range map[string]struct {
		change func(*cdx.BOM, *cdx.Component) // the whole and the component of logr
		says   string
	}{
		"missing":            {func(_ *cdx.BOM, c *cdx.Component) { c.Type = cdx.ComponentTypeFile }, "not in it"},
		"another version":    {func(_ *cdx.BOM, c *cdx.Component) { c.Version = "v0.0.1" }, `version "v0.0.1"`},
		"another URL":        {func(_ *cdx.BOM, c *cdx.Component) { c.PackageURL = "pkg:golang/x@v1" }, "package URL"},
		"no licence":         {func(_ *cdx.BOM, c *cdx.Component) { c.Licenses = nil }, "without a licence"},
		"no checksum":        {func(_ *cdx.BOM, c *cdx.Component) { c.Hashes = nil }, "without checksum"},
		"another checksum":   {func(_ *cdx.BOM, c *cdx.Component) { (*c.Hashes)[0].Value = strings.Repeat("0", 64) }, "without checksum"},
		"too much":           {func(_ *cdx.BOM, c *cdx.Component) { c.Name += "x" }, "in none of the programs"},
		"of another program": {func(b *cdx.BOM, _ *cdx.Component) { (*(*b.Components)[0].Hashes)[0].Value = strings.Repeat("0", 64) }, "program egress-proxy"},
		"of another project": {func(b *cdx.BOM, _ *cdx.Component) { b.Metadata.Component.Name = "x" }, "it is about x"},
		"no subject":         {func(b *cdx.BOM, _ *cdx.Component) { b.Metadata = nil }, "no bill"},
	} {
		var b cdx.BOM
		must(t, json.Unmarshal(bill, &b))
		for i := range *b.Components {
			if at := &(*b.Components)[i]; at.Name == logr {
				c.change(&b, at)
				break
			}
		}
		changed, err := json.Marshal(&b)
		must(t, err)
		if err := bom.Verify(changed, p); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	for name, change := range map[string][2]string{
		"no such licence": {`"id": "BSD-3-Clause"`, `"id": "BSD-THREE"`},
		"no such kind":    {`"type": "library"`, `"type": "books"`},
		"no checksum":     {`"content": "aa`, `"content": "zz`},
	} {
		changed := bytes.ReplaceAll(bill, []byte(change[0]), []byte(change[1]))
		if bytes.Equal(changed, bill) {
			t.Fatalf("%s: %q is not in the bill", name, change[0])
		}
		if err := bom.Validate(t.Context(), changed, ".."); err == nil {
			t.Errorf("%s: CycloneDX's schema takes it", name)
		}
	}
}

func serial(t *testing.T, bill []byte) string {
	t.Helper()
	var b cdx.BOM
	must(t, json.Unmarshal(bill, &b))
	if b.SerialNumber == "" {
		t.Error("no serial number")
	}
	return b.SerialNumber
}
