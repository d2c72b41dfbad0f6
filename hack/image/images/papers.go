package images

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// papers is where the image keeps them.
const papers = "/usr/share/doc/" + OperatorName

// Papers are the names of what goes with the programs: this project's licence, the licences of all modules in the programs,
// and the bill of materials, in CycloneDX.
func Papers() []string { return []string{"LICENSE", "THIRD-PARTY-NOTICES", "sbom.cdx.json"} }

// describe writes the papers of the programs that lie in dir, and of their image, beside them. It fails when a module in them has a licence that
// this project does not take. certificates are whom the image trusts.
func describe(ctx context.Context, dir string, s Stamp, certificates []byte) error {
	dir, err := filepath.Abs(dir) // the program below has another working folder
	if err != nil {
		return err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "roots-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	trusted := filepath.Join(scratch, "roots")
	if err := os.WriteFile(trusted, certificates, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), licence, 0o644); err != nil {
		return err
	}
	// In a module of its own: what it requires, the operator does not.
	cmd := exec.CommandContext(ctx, "go", "-C", filepath.Join(root, "hack", "supply"), "run", ".", "describe", "-root", root, "-o", dir,
		"-version", s.Version, "-date", s.Date, "-file", roots+"="+trusted, filepath.Join(dir, "operator"), filepath.Join(dir, "egress-proxy"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("describing the programs: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// moduleRoot is the folder of this module, in which the working folder has to be.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("where module %s is: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}
