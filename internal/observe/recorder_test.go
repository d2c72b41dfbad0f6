package observe_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// Listed implements observe.Recorder.
func (x *rig) Listed(name string, instances int, began time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.heard = append(x.heard, fmt.Sprintf("%s %d %s", name, instances, time.Since(began)))
}

// ListFailed implements observe.Recorder.
func (x *rig) ListFailed(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.heard = append(x.heard, name+" failed")
}

// ProviderGone implements observe.Recorder.
func (x *rig) ProviderGone(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.heard = append(x.heard, name+" gone")
}

func (x *rig) expectLists(when string, want ...string) {
	x.t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	if !slices.Equal(x.heard, want) {
		x.t.Errorf("%s: lists %q, want %q", when, x.heard, want)
	}
	x.heard = nil
}

func TestListsAreCounted(t *testing.T) {
	observing(t, callTimeout, func(t *testing.T, x *rig) {
		x.start()
		x.expectLists("at the start", "cloud 0 0s")
		x.backends["cloud"].OnCall(func(string, provider.Ref) providertest.Fault {
			return providertest.Fault{Err: provider.Wrap(provider.ErrDenied, "list", "cloud", "", errors.New("no"))}
		})
		x.pass(interval)
		x.expectLists("denied", "cloud failed")
		x.backends["cloud"].OnCall(nil)
		x.pass(interval)
		x.expectLists("mended", "cloud 0 0s")
		x.backends["cloud"].OnCall(func(string, provider.Ref) providertest.Fault { return providertest.Fault{Hold: make(chan struct{})} })
		x.pass(interval)
		x.expectLists("under way")
		x.pass(callTimeout)
		x.expectLists("too late", "cloud failed")
		x.pass(interval - callTimeout)
		x.stop()
		x.expectLists("to be stopped is no failure")
	})
}

// TestAnEntryThatWasTakenOutIsNotCounted: the series would come back.
func TestAnEntryThatWasTakenOutIsNotCounted(t *testing.T) {
	for name, fault := range map[string]error{"list": nil, "failure": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			observing(t, callTimeout, func(t *testing.T, x *rig) {
				x.start()
				x.expectLists("at the start", "cloud 0 0s")
				release := make(chan struct{})
				x.backends["cloud"].OnCall(func(string, provider.Ref) providertest.Fault { return providertest.Fault{Hold: release, Err: fault} })
				x.pass(interval)
				x.exchange()
				x.observer.Nudge()
				x.pass(0)
				x.expectLists("taken out", "cloud gone")
				close(release)
				x.pass(0)
				x.expectLists("the list that was under way")
			})
		})
	}
}
