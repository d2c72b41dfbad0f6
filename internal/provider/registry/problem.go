package registry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with the configuration.
type Problem struct { //nolint:errname // what is collected are problems; each is an error too
	// Line counts from 1; 0 where the problem has no line of its own.
	Line int
	// Entry names the entry as in `provider "exits-eu"`, or by its position while its name is unusable; empty outside
	// of the entries.
	Entry string
	// Key is the path inside the entry, as in "local.pools[0].listen"; empty for the entry as a whole.
	Key string
	// Text says what is wrong and what is wanted.
	Text string
}

// Error gives everything on one line.
func (p *Problem) Error() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", p.Line)
	}
	for _, part := range []string{p.Entry, p.Key} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}
	b.WriteString(strings.Join(strings.Fields(p.Text), " "))
	return b.String()
}

// problems collects what is wrong; nil-safe in that an empty one is no error.
type problems []*Problem

func (ps *problems) add(line int, entry, key, format string, args ...any) {
	*ps = append(*ps, &Problem{Line: line, Entry: entry, Key: key, Text: fmt.Sprintf(format, args...)})
}

// err joins the problems in the order of the file.
func (ps problems) err() error {
	slices.SortStableFunc(ps, func(a, b *Problem) int { return cmp.Compare(a.Line, b.Line) })
	errs := make([]error, len(ps))
	for i, p := range ps {
		errs[i] = p
	}
	return errors.Join(errs...)
}
