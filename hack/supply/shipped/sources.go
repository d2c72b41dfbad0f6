package shipped

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Stdlib is the name that vulnerability databases have for Go's own code.
const Stdlib = "stdlib"

// Papers are the files of a module that a licence asks to hand on.
type Papers struct {
	Module
	// Licences have terms in them, Notices what the terms ask to be kept. Both are paths on this host.
	Licences, Notices []string
}

var (
	licenceFile = regexp.MustCompile(`(?i)^((un)?licen[cs]es?|copying)([-_.].*)?$`)
	noticeFile  = regexp.MustCompile(`(?i)^(notices?|patents)([-_.].*)?$`)
	noPaper     = regexp.MustCompile(`(?i)\.(go|json|ya?ml|sh|tmpl)$`)
)

type listed struct {
	ImportPath, Dir string
	Standard        bool
	Module          *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path, Version string }
	}
}

// Sources finds the papers of everything in the programs but of their own module, Go's first. They are looked for in the
// folder of each package that is compiled in and above it, up to its module: parts that somebody else wrote come with a licence
// of their own. It fails when the programs were not built from what is in the folder root.
func (p *Programs) Sources(ctx context.Context, root string) ([]Papers, error) {
	packages, err := p.list(ctx, root)
	if err != nil {
		return nil, err
	}
	found := map[Module]map[string]bool{} // with sums left out
	for _, l := range packages {
		if l.Standard || l.Module == nil || l.Module.Main {
			continue
		}
		m := Module{Path: l.Module.Path, Version: l.Module.Version}
		if r := l.Module.Replace; r != nil {
			m = Module{Path: r.Path, Version: r.Version}
		}
		if found[m] == nil {
			found[m] = map[string]bool{}
		}
		for dir := l.Dir; ; dir = filepath.Dir(dir) {
			found[m][dir] = true
			if dir == l.Module.Dir || len(dir) <= len(l.Module.Dir) {
				break
			}
		}
	}
	goLicence, err := p.standard(ctx, root)
	if err != nil {
		return nil, err
	}
	all := []Papers{goLicence}
	for _, m := range p.Modules() {
		key := Module{Path: m.Path, Version: m.Version}
		if found[key] == nil {
			return nil, fmt.Errorf("%s is in the programs, but not in what %s holds: they were built from something else", m, root)
		}
		papers := Papers{Module: m}
		for _, dir := range slices.Sorted(maps.Keys(found[key])) {
			if err := papers.add(dir); err != nil {
				return nil, err
			}
		}
		delete(found, key)
		all = append(all, papers)
	}
	for m := range found {
		return nil, fmt.Errorf("%s is in what %s holds, but not in the programs: they were built from something else", m, root)
	}
	return all, nil
}

func (a *Papers) add(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		switch name := f.Name(); {
		case f.IsDir() || noPaper.MatchString(name):
		case licenceFile.MatchString(name):
			a.Licences = append(a.Licences, filepath.Join(dir, name))
		case noticeFile.MatchString(name):
			a.Notices = append(a.Notices, filepath.Join(dir, name))
		}
	}
	return nil
}

// list asks Go which packages the programs consist of.
func (p *Programs) list(ctx context.Context, root string) ([]listed, error) {
	args := []string{"list", "-deps", "-json=ImportPath,Dir,Standard,Module", "-tags", p.Tags}
	for _, b := range p.Binaries {
		args = append(args, b.Package)
	}
	out, err := p.goCommand(ctx, root, args...)
	if err != nil {
		return nil, err
	}
	var all []listed
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := in.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
}

// standard is Go itself. Some distributions keep its licence elsewhere; that of the module golang.org/x/sys is the same text.
func (p *Programs) standard(ctx context.Context, root string) (Papers, error) {
	out := Papers{Module: Module{Path: Stdlib, Version: p.Go}}
	for _, args := range [][]string{{"env", "GOROOT"}, {"list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys"}} {
		dir, err := p.goCommand(ctx, root, args...)
		if err != nil {
			return out, err
		}
		if err := out.add(strings.TrimSpace(string(dir))); err != nil {
			return out, err
		}
		if len(out.Licences) > 0 {
			break
		}
	}
	return out, nil
}

func (p *Programs) goCommand(ctx context.Context, root string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+p.GOOS, "GOARCH="+p.GOARCH, "CGO_ENABLED="+p.Cgo)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", args[0], err, strings.TrimSpace(said.String()))
	}
	return out, nil
}
