package rules

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestQueriesOfThePagesAreValid: each line of a promql block is a query that can be pasted.
func TestQueriesOfThePagesAreValid(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?s)```promql\n(.*?)```")
	placeholder := regexp.MustCompile(`<[a-z -]+>`)
	f := file{name: "queries.yaml"}
	for _, path := range append(glob(t, runbooks, "*.md"), root+"/docs/operations.md") {
		g := group{Name: filepath.Base(path)}
		for _, m := range block.FindAllStringSubmatch(string(read(t, path)), -1) {
			for query := range strings.Lines(m[1]) {
				query = placeholder.ReplaceAllString(strings.TrimSpace(query), "x")
				g.Rules = append(g.Rules, rule{Record: fmt.Sprintf("query:%d", len(g.Rules)), Expr: query})
			}
		}
		f.groups = append(f.groups, g)
	}
	dir := t.TempDir()
	f.write(t, dir)
	promtool(t, dir, "check", "rules", f.name)
}
