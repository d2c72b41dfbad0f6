// Package shipped says what is in Go programs: from the programs themselves, which cannot be wrong about it, and from the
// sources that they were built from.
package shipped

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// Module is one that has code in a program.
type Module struct {
	Path, Version string
	// Sum is the checksum that go.sum has of its content, "h1:…".
	Sum string
}

func (m Module) String() string { return m.Path + "@" + m.Version }

// Binary is a program for one platform.
type Binary struct {
	Name    string // of its file
	Package string // import path
	SHA256  string // of the file, in hex
	Modules []Module
}

// Programs are programs of one module that were built alike.
type Programs struct {
	Main         string // module path
	Go           string // version of Go, without "go"
	GOOS, GOARCH string
	Cgo          string // CGO_ENABLED
	Tags         string // build tags, separated by commas
	Binaries     []Binary
}

// Read reads the programs in files.
func Read(files ...string) (*Programs, error) {
	if len(files) == 0 {
		return nil, errors.New("no program is named")
	}
	var all *Programs
	for _, f := range files {
		p, err := read(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		if all == nil {
			all = p
			continue
		}
		one, other := *all, *p
		one.Binaries, other.Binaries = nil, nil
		if same := fmt.Sprint(one) == fmt.Sprint(other); !same {
			return nil, fmt.Errorf("%s and %s were built differently: %+v and %+v", files[0], f, one, other)
		}
		all.Binaries = append(all.Binaries, p.Binaries...)
	}
	return all, nil
}

func read(file string) (*Programs, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, err
	}
	sum, err := sha256Of(file)
	if err != nil {
		return nil, err
	}
	p := &Programs{Main: info.Main.Path, Go: strings.TrimPrefix(info.GoVersion, "go")}
	settings := map[string]*string{"GOOS": &p.GOOS, "GOARCH": &p.GOARCH, "CGO_ENABLED": &p.Cgo, "-tags": &p.Tags}
	for _, s := range info.Settings {
		if at := settings[s.Key]; at != nil {
			*at = s.Value
		}
	}
	b := Binary{Name: path.Base(filepath.ToSlash(file)), Package: info.Path, SHA256: sum}
	for _, d := range info.Deps {
		m, err := module(d)
		if err != nil {
			return nil, err
		}
		b.Modules = append(b.Modules, m)
	}
	p.Binaries = []Binary{b}
	return p, nil
}

// module follows a replacement: that is what was compiled. One by a folder has no checksum, and nobody else can look at it.
func module(d *debug.Module) (Module, error) {
	if d.Replace != nil {
		d = d.Replace
	}
	if d.Sum == "" || d.Version == "" {
		return Module{}, fmt.Errorf("module %s has no version and checksum: it comes from a folder", d.Path)
	}
	return Module{Path: d.Path, Version: d.Version, Sum: d.Sum}, nil
}

// Modules are those of all programs, each once, by path.
func (p *Programs) Modules() []Module {
	var all []Module
	for _, b := range p.Binaries {
		all = append(all, b.Modules...)
	}
	slices.SortFunc(all, func(a, b Module) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

func sha256Of(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
