package sources

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Names returns the operator's own metrics that text names, sorted, each once. The name of a series of a histogram is that of
// the histogram. What ends in an underscore is a prefix, not a name, and is left out, as is what a recording rule names
// between colons.
func Names(text string) []string {
	var out []string
	for _, m := range name().FindAllStringSubmatchIndex(text, -1) {
		n := text[m[2]:m[3]]
		// "proxy_operator_lease_*" and "proxy_operator_lease_{a,b}" stand for several.
		if rest := text[m[1]:]; strings.HasSuffix(n, "_") || strings.HasPrefix(rest, "*") || strings.HasPrefix(rest, ":") {
			continue
		}
		out = append(out, Family(n))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Family returns the name of the histogram that a series belongs to, else the name itself.
func Family(series string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(series, suffix); ok && strings.HasSuffix(base, "_seconds") {
			return base
		}
	}
	return series
}

// The character before keeps the names of recording rules out, job_outcome:proxy_operator_…, which contain no metric's name.
func name() *regexp.Regexp { return regexp.MustCompile(`(?:^|[^\w:])(proxy_operator_[a-z_]+)`) }

// NamesInPages returns where each metric is named in the Markdown files below dir: file by file, relative to dir.
func NamesInPages(dir string) (map[string][]string, error) {
	out := map[string][]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		page, err := filepath.Rel(dir, path)
		for _, n := range Names(string(data)) {
			out[n] = append(out[n], page)
		}
		return err
	})
	return out, err
}
