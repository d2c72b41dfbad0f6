// Package licences says under which terms modules are, whether this project takes them, and what it has to hand on.
package licences

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/licensecheck"

	"github.com/egress-proxies/egress-proxies-operator/hack/supply/shipped"
)

// leastCoverage is how much of a text, in percent, has to be terms that are known. The rest is names of owners, and lists of
// what is whose.
const leastCoverage = 75

// taken are the terms, by SPDX identifier, under which code may become part of programs that are under Apache-2.0. All ask for
// no more than that their text goes with the programs.
func taken() []string {
	return []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}
}

// Found are the terms of one module.
type Found struct {
	shipped.Papers
	IDs []string // SPDX, sorted
}

// Expression is what the terms are together, in SPDX.
func (f Found) Expression() string { return strings.Join(f.IDs, " AND ") }

// Find reads the licences of the modules. The error names each module whose terms are unknown or not taken, with the terms.
func Find(modules []shipped.Papers) ([]Found, error) {
	var out []Found
	var errs []error
	for _, m := range modules {
		f := Found{Papers: m}
		if len(m.Licences) == 0 {
			errs = append(errs, fmt.Errorf("%s: no licence: there is no such file beside its packages", m.Module))
		}
		for _, file := range m.Licences {
			ids, err := terms(file)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", m.Module, filepath.Base(file), err))
			}
			f.IDs = append(f.IDs, ids...)
		}
		slices.Sort(f.IDs)
		f.IDs = slices.Compact(f.IDs)
		out = append(out, f)
	}
	return out, errors.Join(errs...)
}

// terms are those of one file.
func terms(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	seen := licensecheck.Scan(text)
	var ids, refused []string
	for _, m := range seen.Match {
		switch {
		case m.IsURL: // a pointer is no terms
		case slices.Contains(taken(), m.ID):
			ids = append(ids, m.ID)
		default:
			refused = append(refused, m.ID)
		}
	}
	switch {
	case len(refused) > 0:
		return ids, fmt.Errorf("licence %s, which is none of %s", strings.Join(refused, ", "), strings.Join(taken(), ", "))
	case len(ids) == 0 || seen.Percent < leastCoverage:
		return ids, fmt.Errorf("unknown licence: %.0f %% of it is known (%s), wanted are %d %%", seen.Percent, strings.Join(ids, ", "), leastCoverage)
	}
	return ids, nil
}
