//go:build linux

package local_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local/instancelock"
)

func (w *world) file(id, suffix string) string { return filepath.Join(w.dir, path.Base(id)+suffix) }

// recorded is what the tests need to know of a record.
type recorded struct {
	Listen, Exit string
	Port         int
}

func (w *world) record(id string) (r recorded) {
	w.t.Helper()
	data, err := os.ReadFile(w.file(id, ".json"))
	must(w.t, err)
	must(w.t, json.Unmarshal(data, &r))
	return r
}

// processes finds the proxies of this folder by their command lines.
func (w *world) processes() map[string][]int {
	found := map[string][]int{}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, line := range lines {
		data, _ := os.ReadFile(line)
		for arg := range strings.SplitSeq(string(data), "\x00") {
			if file, ok := strings.CutPrefix(arg, "--state-file="+w.dir+"/"); ok {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(line)))
				name := strings.TrimSuffix(file, ".json")
				found[name] = append(found[name], pid)
			}
		}
	}
	return found
}

// pid returns who holds the record of id, 0 for nobody.
func (w *world) pid(id string) int {
	w.t.Helper()
	f, err := os.Open(w.file(id, ".json"))
	if os.IsNotExist(err) {
		return 0
	}
	must(w.t, err)
	defer f.Close()
	pid, _, err := instancelock.Holder(f)
	must(w.t, err)
	return pid
}

// kill ends the process of id and waits until the kernel has dropped its lock.
func (w *world) kill(id string) {
	w.t.Helper()
	must(w.t, syscall.Kill(w.pid(id), syscall.SIGKILL))
	w.eventually("the lock being dropped", func() bool { return w.pid(id) == 0 })
}

// leftovers lists files and processes, each with the ID it belongs to in front.
func (w *world) leftovers() (left []string) {
	w.t.Helper()
	entries, err := os.ReadDir(w.dir)
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatalf("%v", err)
	}
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), ".")
		left = append(left, "hosts/"+host+"/processes/"+name+" file "+e.Name())
	}
	for name, pids := range w.processes() {
		left = append(left, fmt.Sprintf("hosts/%s/processes/%s processes %v", host, name, pids))
	}
	return left
}

func (w *world) nothingLeft(when string) {
	w.t.Helper()
	if left := w.leftovers(); len(left) > 0 {
		w.t.Errorf("%s there is left: %s", when, strings.Join(left, "; "))
	}
}

func (w *world) eventually(what string, done func() bool) {
	w.t.Helper()
	if !within(patience, done) {
		w.t.Fatalf("%s did not come about within %s", what, patience)
	}
}

// within looks until done says true, at most for d.
func within(d time.Duration, done func() bool) bool {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	again := time.NewTicker(tick)
	defer again.Stop()
	for !done() {
		select {
		case <-deadline.C:
			return done()
		case <-again.C:
		}
	}
	return true
}

func must(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}
