package bom

import (
	"bytes"
	"errors"
	"fmt"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/package-url/packageurl-go"

	"github.com/egress-proxies/egress-proxies-operator/hack/supply/shipped"
)

// Verify checks that the bill is about exactly these programs: each is in it with its hash, each module in them with version,
// package URL, licence and checksum, and nothing else that claims to be a module. The error says all that is wrong.
func Verify(bill []byte, p *shipped.Programs) error {
	var b cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(bill), cdx.BOMFileFormatJSON).Decode(&b); err != nil {
		return err
	}
	if b.SpecVersion != spec || b.Metadata == nil || b.Metadata.Component == nil || b.Components == nil {
		return fmt.Errorf("no bill in CycloneDX %s with a subject and components", spec)
	}
	var errs []error
	if got := b.Metadata.Component.Name; got != p.Main {
		errs = append(errs, fmt.Errorf("it is about %s, the programs are of %s", got, p.Main))
	}
	libraries, programs := map[string]cdx.Component{}, map[string]cdx.Component{}
	for _, c := range *b.Components {
		into := libraries
		switch c.Type {
		case cdx.ComponentTypeApplication:
			into = programs
		case cdx.ComponentTypeLibrary:
		default:
			continue
		}
		if _, twice := into[c.Name]; twice {
			errs = append(errs, fmt.Errorf("%s is in it twice", c.Name))
		}
		into[c.Name] = c
	}
	for _, want := range p.Binaries {
		if !hashed(programs[want.Name], want.SHA256) {
			errs = append(errs, fmt.Errorf("program %s: not in it with SHA-256 %s", want.Name, want.SHA256))
		}
		delete(programs, want.Name)
	}
	for name := range programs {
		errs = append(errs, fmt.Errorf("program %s is in it, but is not here", name))
	}
	for _, want := range append(p.Modules(), shipped.Module{Path: shipped.Stdlib, Version: p.Go}) {
		if err := describes(libraries[want.Path], want); err != nil {
			errs = append(errs, fmt.Errorf("module %s: %w", want, err))
		}
		delete(libraries, want.Path)
	}
	for name, c := range libraries {
		errs = append(errs, fmt.Errorf("module %s@%s is in it, but in none of the programs", name, c.Version))
	}
	return errors.Join(errs...)
}

// describes says what a component lacks of the module.
func describes(c cdx.Component, m shipped.Module) error {
	if c.Name == "" {
		return errors.New("not in it")
	}
	if c.Version != m.Version {
		return fmt.Errorf("in it with version %q", c.Version)
	}
	if u, err := packageurl.FromString(c.PackageURL); err != nil || u.String() != purl(m.Path, m.Version) {
		return fmt.Errorf("in it with package URL %q", c.PackageURL)
	}
	if c.Licenses == nil || len(*c.Licenses) == 0 || (*c.Licenses)[0] == (cdx.LicenseChoice{}) {
		return errors.New("in it without a licence")
	}
	if m.Path == shipped.Stdlib {
		return nil
	}
	sum, err := sumHex(m.Sum)
	if err != nil {
		return err
	}
	if !hashed(c, sum) {
		return fmt.Errorf("in it without checksum %s", m.Sum)
	}
	return nil
}

func hashed(c cdx.Component, sum string) bool {
	if c.Hashes == nil {
		return false
	}
	for _, h := range *c.Hashes {
		if h.Algorithm == cdx.HashAlgoSHA256 && h.Value == sum {
			return true
		}
	}
	return false
}
