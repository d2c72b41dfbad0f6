// Package bom writes and checks bills of materials in CycloneDX.
package bom

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
	"github.com/package-url/packageurl-go"

	"github.com/egress-proxies/egress-proxies-operator/hack/supply/licences"
	"github.com/egress-proxies/egress-proxies-operator/hack/supply/shipped"
)

// spec is the version of CycloneDX: the newest that scanners commonly read.
const spec = cdx.SpecVersion1_6

// sumProperty holds the checksum as go.sum and the checksum database have it.
const sumProperty = "go:sum"

// Subject is what the bill is about.
type Subject struct {
	Version string // empty when unknown
	Date    string // of the commit, RFC 3339; empty when unknown
	// Files are what else ships with the programs: SHA-256 in hex by the path that it has there.
	Files map[string]string
}

// Make writes the bill of programs in which modules with those licences are. The same input gives the same bytes.
func Make(p *shipped.Programs, modules []licences.Found, s Subject) ([]byte, error) {
	if s.Date != "" {
		if _, err := time.Parse(time.RFC3339, s.Date); err != nil {
			return nil, fmt.Errorf("date %q: no date and time in RFC 3339", s.Date)
		}
	}
	root := cdx.Component{
		BOMRef: "subject", Type: cdx.ComponentTypeApplication, Name: p.Main, Version: s.Version, Licenses: licence("Apache-2.0"),
		PackageURL: purl(p.Main, s.Version),
		Properties: &[]cdx.Property{{Name: "go:GOARCH", Value: p.GOARCH}, {Name: "go:GOOS", Value: p.GOOS}, {Name: "go:version", Value: p.Go}},
	}
	var components []cdx.Component
	edges := map[string][]string{}
	for _, b := range p.Binaries {
		ref := "program:" + b.Name
		components = append(components, cdx.Component{
			BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: b.Name, Version: s.Version, Licenses: licence("Apache-2.0"), Hashes: sha256(b.SHA256),
		})
		edges[root.BOMRef] = append(edges[root.BOMRef], ref)
		edges[ref] = []string{purl(shipped.Stdlib, p.Go)}
		for _, m := range b.Modules {
			edges[ref] = append(edges[ref], purl(m.Path, m.Version))
		}
	}
	for _, f := range slices.Sorted(maps.Keys(s.Files)) {
		ref := "file:" + f
		components = append(components, cdx.Component{BOMRef: ref, Type: cdx.ComponentTypeFile, Name: f, Hashes: sha256(s.Files[f])})
		edges[root.BOMRef] = append(edges[root.BOMRef], ref)
	}
	for _, m := range modules {
		c, err := library(m)
		if err != nil {
			return nil, err
		}
		components = append(components, c)
		edges[c.BOMRef] = nil
	}
	b := cdx.NewBOM()
	b.Metadata = &cdx.Metadata{Timestamp: s.Date, Component: &root, Lifecycles: &[]cdx.Lifecycle{{Phase: cdx.LifecyclePhaseBuild}}}
	b.Components, b.Dependencies = &components, dependencies(edges)
	plain, err := encode(b)
	if err != nil {
		return nil, err
	}
	// A serial number names one bill: another content has another, the same content the same.
	b.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, plain).URN()
	return encode(b)
}

func library(m licences.Found) (cdx.Component, error) {
	c := cdx.Component{
		BOMRef: purl(m.Path, m.Version), Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, Scope: cdx.ScopeRequired,
		Licenses: licence(m.Expression()), PackageURL: purl(m.Path, m.Version),
	}
	if m.Path == shipped.Stdlib {
		return c, nil
	}
	sum, err := sumHex(m.Sum)
	if err != nil {
		return c, fmt.Errorf("%s: %w", m.Module, err)
	}
	c.Hashes, c.Properties = sha256(sum), &[]cdx.Property{{Name: sumProperty, Value: m.Sum}}
	return c, nil
}

// sumHex is the SHA-256 in a checksum of go.sum.
func sumHex(sum string) (string, error) {
	encoded, ok := strings.CutPrefix(sum, "h1:")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(raw) != 32 {
		return "", fmt.Errorf("checksum %q: wanted is h1: and 32 bytes in base64", sum)
	}
	return hex.EncodeToString(raw), nil
}

func sha256(sum string) *[]cdx.Hash {
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
}

func licence(expression string) *cdx.Licenses {
	if strings.Contains(expression, " ") {
		return &cdx.Licenses{{Expression: expression}}
	}
	return &cdx.Licenses{{License: &cdx.License{ID: expression}}}
}

func purl(module, version string) string {
	namespace, name := path.Split(module)
	return packageurl.NewPackageURL(packageurl.TypeGolang, strings.TrimSuffix(namespace, "/"), name, version, nil, "").ToString()
}

func dependencies(edges map[string][]string) *[]cdx.Dependency {
	var out []cdx.Dependency
	for _, ref := range slices.Sorted(maps.Keys(edges)) {
		d := cdx.Dependency{Ref: ref}
		if on := slices.Sorted(slices.Values(edges[ref])); len(on) > 0 {
			d.Dependencies = &on
		}
		out = append(out, d)
	}
	return &out
}

func encode(b *cdx.BOM) ([]byte, error) {
	var out bytes.Buffer
	err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).EncodeVersion(b, spec)
	return out.Bytes(), err
}
