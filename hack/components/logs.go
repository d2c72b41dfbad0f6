package components

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// tailLines is how much of each log is shown after a failure.
const tailLines = 40

// ReportLogs shows the end of each component's log, or says where they stay.
func ReportLogs(program, dir string, kept bool) {
	if kept {
		fmt.Fprintln(os.Stderr, program+": the logs are in", dir)
		return
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, program+":", err)
			continue
		}
		fmt.Fprintf(os.Stderr, "\n=== %s\n%s\n", filepath.Base(file), tail(string(data), tailLines))
	}
}

// tail returns the last n lines.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
