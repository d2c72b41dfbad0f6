//go:build linux

package local_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

func TestLeftoversOfCrashesAreSwept(t *testing.T) {
	t.Parallel()
	w := newWorld(providertest.Go(t))
	p := w.provider()
	kept, _ := w.created(p, w.request())
	gone := w.ref(w.request(), 1)
	others := []string{w.dir + "/notes.txt", w.dir + "/notes.log", w.dir + "/proxy-notes.auth"}
	plant := func() {
		t.Helper()
		for _, path := range append([]string{
			w.file(kept.ID, ".json.tmp"), w.file(kept.ID, ".auth.tmp"), w.file(gone.ID, ".json.tmp"), w.file(gone.ID, ".auth"),
			w.file(gone.ID, ".log"),
		}, others...) {
			must(t, os.WriteFile(path, nil, 0o600))
		}
	}
	check := func(by string) {
		t.Helper()
		var files []string
		for _, line := range w.leftovers() {
			if strings.Contains(line, " file ") {
				files = append(files, line)
			}
		}
		if len(files) != 2+len(others) { // record and log of the one that runs, and what is not the provider's
			t.Errorf("after %s there are %v", by, files)
		}
	}
	plant()
	must(t, p.Delete(context.Background(), gone))
	check("a Delete of what is absent")
	plant()
	ref, _ := w.created(p, w.request())
	w.deleted(p, ref)
	check("Create and Delete")
	w.running(p, kept)
	for _, path := range others {
		must(t, os.Remove(path))
	}
	w.deleted(p, kept)
	w.nothingLeft("in the end")
}
