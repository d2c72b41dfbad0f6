package sources

import (
	"bufio"
	"io"
	"strings"
)

// Exposed returns the names of the metrics in an exposition (the text format of /metrics) that have at least one series.
func Exposed(r io.Reader) (map[string]bool, error) {
	out := map[string]bool{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if end := strings.IndexAny(line, "{ "); end > 0 {
			out[Family(line[:end])] = true
		}
	}
	return out, lines.Err()
}
