//go:build linux

package local_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// converges checks what has to hold after a crash, as the next operator sees it: what exists has a record with all
// marks, what has no record ends by itself, and everything can be deleted.
func (w *world) converges(req provider.CreateRequest, ref provider.Ref, when string) {
	w.t.Helper()
	p := w.provider()
	ctx := context.Background()
	inst, err := p.Get(ctx, w.old(ref))
	listing, listErr := p.ListByTag(ctx)
	must(w.t, listErr)
	switch provider.Class(err) {
	case provider.ErrNotFound:
		if len(listing.Instances) != 0 {
			w.t.Errorf("%s: Get says ErrNotFound, listed is %+v", when, listing.Instances)
		}
	case nil:
		if inst.State != provider.StateRunning && inst.State != provider.StateStopped || inst.Marks != owner.MarksFor(req, ref) {
			w.t.Errorf("%s: Get = %+v", when, inst)
		}
		if len(listing.Instances) != 1 || listing.Instances[0].Identity != inst.Identity {
			w.t.Errorf("%s: listed is %+v, Get shows %+v", when, listing.Instances, inst)
		}
		// Created again under the same record, it is the same one.
		must(w.t, p.Create(ctx, req, w.ref(req, ref.Attempt)))
	default:
		w.t.Errorf("%s: Get = %v", when, err)
	}
	// A process that the dead operator had just started may get to its record between two looks of a Delete; then that
	// Delete is transient and the next one finds it.
	w.eventually("Delete succeeding "+when, func() bool {
		err := p.Delete(ctx, w.old(ref))
		if err != nil && provider.Class(err) != provider.ErrTransient {
			w.t.Fatalf("%s: Delete = %v", when, err)
		}
		return err == nil
	})
	w.absent(p, ref)
	if !within(patience, func() bool { return len(w.leftovers()) == 0 }) {
		w.t.Fatalf("%s: there is left %v", when, w.leftovers())
	}
}

func TestCrashAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		do, at string
		exists bool
	}{
		{"create", "looked", false}, {"create", "recorded", true}, {"create", "authorized", true}, {"create", "started", true},
		{"create", "done", true},
		{"delete", "found", true}, {"delete", "signalled", true}, {"delete", "stopped", true}, {"delete", "remove.auth", true},
		{"delete", "remove.log", true}, {"delete", "remove.json", true}, {"delete", "done", false},
	} {
		t.Run(tc.do+" "+tc.at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(providertest.Go(t))
			req := w.request()
			req.Credentials = &provider.Credentials{Username: "user", Password: "secret", Revision: "r1"}
			ref := w.ref(req, 1)
			if tc.do == "delete" {
				w.created(w.provider(), req)
			}
			w.start(job{
				Do: tc.do, Reqs: []provider.CreateRequest{req}, Refs: []provider.Ref{ref}, DieAt: tc.at,
			}).begin().ended()
			_, err := os.Stat(w.file(ref.ID, ".json"))
			if exists := err == nil; exists != tc.exists {
				t.Errorf("the record is there: %t, want %t", exists, tc.exists)
			}
			w.converges(req, ref, "after the crash")
		})
	}
}

// TestCrashesAtRandomInstants kills an operator that creates and deletes one instance, at an instant drawn at random; in
// half of the rounds it is paused first, while another one works on the folder. Set EPX_CRASH_SEED to draw the same
// instants again.
func TestCrashesAtRandomInstants(t *testing.T) {
	t.Parallel()
	seed := time.Now().UnixNano()
	if text := os.Getenv("EPX_CRASH_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseInt(text, 10, 64)
		must(t, err)
	}
	t.Logf("EPX_CRASH_SEED=%d", seed)
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	for round := range 24 {
		delay, paused := time.Duration(r.Int64N(int64(60*time.Millisecond))), r.IntN(2) == 0
		when := fmt.Sprintf("EPX_CRASH_SEED=%d, round %d, killed after %s, paused before: %t", seed, round, delay, paused)
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			t.Parallel()
			w := newWorld(providertest.Go(t))
			req := w.request()
			if round%3 > 0 {
				req.Credentials = &provider.Credentials{Username: "user", Password: "secret", Revision: "r1"}
			}
			ref := w.ref(req, 1)
			h := w.start(job{Do: "cycle", Reqs: []provider.CreateRequest{req}, Refs: []provider.Ref{ref}}).begin()
			strike := time.NewTimer(delay)
			defer strike.Stop()
			<-strike.C
			if paused {
				must(t, h.cmd.Process.Signal(syscall.SIGSTOP))
				w.besidePaused(ref, when)
			}
			h.kill()
			w.converges(req, ref, when)
		})
	}
}

// besidePaused works on the folder while another operator stands still in it: with the lock or without.
func (w *world) besidePaused(ref provider.Ref, when string) {
	w.t.Helper()
	p := w.provider()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	inst, err := p.Get(ctx, ref)
	if class := provider.Class(err); class != nil && class != provider.ErrTransient {
		w.t.Errorf("%s: Get = %+v, %v", when, inst, err)
	}
	if err := p.Delete(ctx, ref); err != nil && provider.Class(err) != provider.ErrTransient {
		w.t.Errorf("%s: Delete = %v", when, err)
	}
}
