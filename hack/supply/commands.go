package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/egress-proxies/egress-proxies-operator/hack/supply/bom"
	"github.com/egress-proxies/egress-proxies-operator/hack/supply/licences"
	"github.com/egress-proxies/egress-proxies-operator/hack/supply/shipped"
	"github.com/egress-proxies/egress-proxies-operator/hack/supply/vuln"
)

type command struct {
	ctx                       context.Context //nolint:containedctx // of the one call that the process is for
	stdout                    io.Writer
	root, out, bill, database string
	required                  bool
	subject                   bom.Subject
	args                      []string
}

func (c *command) addFile(value string) error {
	at, file, ok := strings.Cut(value, "=")
	if !ok || at == "" || file == "" {
		return errors.New("wanted: path=file")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if c.subject.Files == nil {
		c.subject.Files = map[string]string{}
	}
	sum := sha256.Sum256(data)
	c.subject.Files[at] = hex.EncodeToString(sum[:])
	return nil
}

// found reads the programs and the licences of what is in them.
func (c *command) found() (*shipped.Programs, []licences.Found, error) {
	p, err := shipped.Read(c.args...)
	if err != nil {
		return nil, nil, err
	}
	papers, err := p.Sources(c.ctx, c.root)
	if err != nil {
		return nil, nil, err
	}
	found, err := licences.Find(papers)
	return p, found, err
}

func (c *command) licences() error {
	_, found, err := c.found()
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	for _, f := range found {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Path, f.Version, f.Expression())
	}
	return errors.Join(w.Flush(), err)
}

func (c *command) describe() error {
	if c.out == "" {
		return errors.New("wanted: -o FOLDER")
	}
	p, found, err := c.found()
	if err != nil {
		return err
	}
	notices, err := licences.Notices(found)
	if err != nil {
		return err
	}
	bill, err := bom.Make(p, found, c.subject)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(c.out, 0o755),
		os.WriteFile(filepath.Join(c.out, "THIRD-PARTY-NOTICES"), notices, 0o644),
		os.WriteFile(filepath.Join(c.out, "sbom.cdx.json"), bill, 0o644))
}

func (c *command) verify() error {
	bill, err := os.ReadFile(c.bill)
	if err != nil {
		return err
	}
	p, err := shipped.Read(c.args...)
	if err != nil {
		return err
	}
	if err := bom.Validate(c.ctx, bill, filepath.Join(c.root, "hack", "supply")); err != nil {
		return fmt.Errorf("%s: %w", c.bill, err)
	}
	if err := bom.Verify(bill, p); err != nil {
		return fmt.Errorf("%s: %w", c.bill, err)
	}
	fmt.Fprintf(c.stdout, "%s: all %d modules of %d programs for %s/%s are in it\n", c.bill, len(p.Modules()), len(p.Binaries), p.GOOS, p.GOARCH)
	return nil
}

func (c *command) vulncheck() error {
	for _, from := range []string{os.Getenv("GOVULNDB"), vuln.Database} {
		if c.database == "" {
			c.database = from
		}
	}
	err := vuln.Check(c.ctx, c.database, c.root, c.stdout, c.args...)
	if errors.Is(err, vuln.ErrNotRun) && !c.required {
		fmt.Fprintln(c.stdout, "vulncheck:", err)
		return nil
	}
	return err
}
