//go:build linux

package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local/instancelock"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// built is where binary builds; empty until it does.
var built string

// binary builds the real egress-proxy, once.
var binary = sync.OnceValues(func() (path string, err error) {
	built, err = os.MkdirTemp("", "epx-identity-")
	if err != nil {
		return "", err
	}
	path = filepath.Join(built, "egress-proxy")
	out, err := exec.Command("go", "build", "-o", path, "github.com/egress-proxies/egress-proxies-operator/cmd/egress-proxy").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return path, err
})

// removeBinary removes what binary built, if it did.
func removeBinary() {
	if built != "" {
		_ = os.RemoveAll(built)
	}
}

// folder is a state folder on this host with the pool that a provider has beside it.
type folder struct {
	w    *world
	dir  string
	pool string
	port int32
}

// newFolder makes a folder. What runs on it ends with the test.
func newFolder(w *world, pool string, port int32) *folder {
	w.t.Helper()
	f := &folder{w: w, dir: w.t.TempDir(), pool: pool, port: port}
	w.t.Cleanup(func() {
		for file, r := range f.records() {
			if r.pid > 0 {
				_ = syscall.Kill(r.pid, syscall.SIGKILL)
				eventually(w.t, file+" being let go", func() bool { return f.records()[file].pid == 0 })
			}
		}
	})
	return f
}

// provider makes what an operator of owner works with.
func (f *folder) provider(owner provider.Owner) provider.Provider {
	f.w.t.Helper()
	path, err := binary()
	must(f.w.t, err)
	block, err := registry.ParseBlock(local.Type, fmt.Appendf(nil, "host: shared\nstateDir: %s\nbinary: %s\npool: [{listen: %s}]\n", f.dir, path, f.pool))
	must(f.w.t, err)
	p, err := local.New(f.w.t.Context(), provider.Options{
		Name: entry, Block: block, Owner: owner, Window: provider.Window{Clock: f.w.clock, CallTimeout: callTimeout, Skew: skew},
	})
	must(f.w.t, err)
	f.w.t.Cleanup(func() { _ = p.(*local.Provider).Close() })
	return p
}

// record is an instance's file and the process that holds it, 0 for none.
type record struct {
	text string
	pid  int
}

func (f *folder) records() map[string]record {
	found := map[string]record{}
	paths, err := filepath.Glob(filepath.Join(f.dir, "*.json"))
	must(f.w.t, err)
	for _, path := range paths {
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must(f.w.t, err)
		pid, _, err := instancelock.Holder(file)
		must(f.w.t, err)
		text, err := os.ReadFile(path)
		must(f.w.t, errors.Join(err, file.Close()))
		found[filepath.Base(path)] = record{string(text), pid}
	}
	return found
}

// of returns the records that carry the UID of any of the Proxies.
func (f *folder) of(at *cluster, keys ...types.NamespacedName) map[string]record {
	f.w.t.Helper()
	found := map[string]record{}
	for file, r := range f.records() {
		for _, key := range keys {
			if strings.Contains(r.text, string(at.uid(key))) {
				found[file] = r
			}
		}
	}
	if len(found) != len(keys) {
		f.w.t.Fatalf("of %v there is %v", keys, found)
	}
	return found
}

// untouched checks that each of before is as it was, and its process alive and in place.
func (f *folder) untouched(before map[string]record, after string) {
	f.w.t.Helper()
	now := f.records()
	for file, was := range before {
		if now[file] != was {
			f.w.t.Errorf("after %s: %s is %+v, it was %+v", after, file, now[file], was)
		}
	}
}

// file returns where the record of the Proxy's instance is.
func (f *folder) file(at *cluster, key types.NamespacedName) string {
	f.w.t.Helper()
	return filepath.Join(f.dir, provider.NameFromUID(string(at.uid(key)))+".json")
}

// freePort returns a port that is free on the address.
func freePort(t *testing.T, address string) int32 {
	t.Helper()
	for range 100 {
		port := 10000 + rand.IntN(20000)
		if l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port))); err == nil {
			_ = l.Close()
			return int32(port)
		}
	}
	t.Fatalf("no free port on %s", address)
	return 0
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !done() {
		select {
		case <-deadline.C:
			t.Fatalf("never %s", what)
		case <-again.C:
		}
	}
}
