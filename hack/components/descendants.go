package components

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// descendants returns the processes that pid has started, and those that they have, as Linux tells it.
func descendants(pid int) []int {
	return below(pid, parents("/proc"))
}

// parents returns each process's parent, read from the folder proc.
func parents(proc string) map[int]int {
	found := map[int]int{}
	files, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "stat"))
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		data, readErr := os.ReadFile(file)
		if err != nil || readErr != nil {
			continue // it has ended
		}
		// pid (name) state parent …, and a name may have any character.
		text := string(data)
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			found[pid] = parent
		}
	}
	return found
}

func below(pid int, parents map[int]int) []int {
	var found []int
	for child, parent := range parents {
		if parent == pid {
			found = append(append(found, child), below(child, parents)...)
		}
	}
	return found
}
