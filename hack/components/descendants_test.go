package components

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestParents(t *testing.T) {
	proc := t.TempDir()
	for pid, stat := range map[string]string{
		"10":   "10 (sshd) S 1 10",
		"11":   "11 (a) b (c) ) S 10 10",
		"self": "99 (never) S 10 10",
		"12":   "12 (torn",
	} {
		if err := os.Mkdir(filepath.Join(proc, pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, pid, "stat"), []byte(stat), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := parents(proc), map[int]int{10: 1, 11: 10}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestBelow(t *testing.T) {
	got := below(1, map[int]int{2: 1, 3: 2, 4: 3, 5: 9, 9: 8})
	slices.Sort(got)
	if want := []int{2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
