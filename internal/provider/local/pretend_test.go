//go:build linux

package local_test

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// pretend makes the test binary a bad proxy when it is called like one.
func pretend(name string) {
	switch name {
	case "hangs":
	case "dies":
		os.Exit(7)
	case "chatters":
		report := os.NewFile(3, "ready")
		for {
			if _, err := report.WriteString("no end of it "); err != nil {
				os.Exit(1)
			}
		}
	default:
		return
	}
	forever := make(chan os.Signal, 1)
	signal.Notify(forever, syscall.SIGUSR1)
	<-forever
}

func TestAProcessThatDoesNotComeUpLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ reason, says string }{
		"hangs":    {"a process that never listens must not hold the call", "did not listen in time"},
		"dies":     {"its exit status is all that there is to say", "exit status 7"},
		"chatters": {"what it says is bounded", "no end of it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(providertest.Go(t))
			w.pretends(name)
			w.window.CallTimeout = 2 * time.Second
			p := w.provider()
			began := time.Now()
			req := w.request()
			err := p.Create(context.Background(), req, w.ref(req, 1))
			expectClass(t, err, provider.ErrTransient)
			if !strings.Contains(err.Error(), tc.says) || len(err.Error()) > 2048 {
				t.Errorf("%s: %v", tc.reason, err)
			}
			if took := time.Since(began); took > patience/2 {
				t.Errorf("it took %s", took)
			}
			w.nothingLeft("after a Create that failed")
		})
	}
}

// pretends makes the test binary the world's proxy, under a name that it knows.
func (w *world) pretends(name string) {
	w.t.Helper()
	self, err := os.Executable()
	must(w.t, err)
	w.binary = filepath.Join(filepath.Dir(w.dir), name)
	must(w.t, os.Symlink(self, w.binary))
}

func TestACreateEndsWithItsWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(providertest.Go(t))
	w.pretends("hangs")
	p := w.provider()
	req := w.request()
	ref := w.ref(req, 1)
	ref.RequestedAt = ref.RequestedAt.Add(-4900 * time.Millisecond) // of 5 s
	began := time.Now()
	expectClass(t, p.Create(context.Background(), req, ref), provider.ErrTransient)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("a Create with 100 ms left of its window took %s", took)
	}
	w.nothingLeft("after a Create that ran out of its window")
}

func expectClass(t *testing.T, err, class error) {
	t.Helper()
	if provider.Class(err) != class {
		t.Fatalf("got %v, want class %q", err, class)
	}
}
