//go:build linux

package local_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

func TestTwoOperatorsNeverShareASlot(t *testing.T) {
	t.Parallel()
	const slots, each = 9, 6
	w := newWorld(providertest.Go(t))
	w.shrink(slots)
	var jobs [2]job
	for i := range jobs {
		jobs[i].Do = "create"
		for range each {
			req := w.request()
			jobs[i].Reqs = append(jobs[i].Reqs, req)
			jobs[i].Refs = append(jobs[i].Refs, w.ref(req, 1))
		}
	}
	first, second := w.start(jobs[0]), w.start(jobs[1])
	first.begin()
	second.begin()
	created, full := 0, 0
	for range each {
		for _, h := range []*helper{first, second} {
			switch a, err := h.next(); {
			case err == nil && a.Class == "ok":
				created++
			case err == nil && a.Class == "quota_exceeded":
				full++
			default:
				t.Errorf("Create = %+v, %v", a, err)
			}
		}
	}
	if created != slots || full != 2*each-slots {
		t.Errorf("%d were created and %d refused, want %d and %d", created, full, slots, 2*each-slots)
	}
	p := w.provider()
	listing, err := p.ListByTag(context.Background())
	must(t, err)
	seen := map[string]string{}
	for _, inst := range listing.Instances {
		for _, taken := range []string{address(&inst), "exit " + inst.ExitAddress} {
			if other, dup := seen[taken]; dup {
				t.Errorf("%s and %s share %s", other, inst.ID, taken)
			}
			seen[taken] = inst.ID
		}
		ref := provider.Ref{ID: inst.ID, UID: inst.Marks.UID, Attempt: inst.Marks.Attempt, Identity: inst.Identity}
		w.deleted(p, ref)
	}
	if len(listing.Instances) != slots {
		t.Errorf("%d are listed, want %d", len(listing.Instances), slots)
	}
	w.nothingLeft("in the end")
}

func TestCreateRacingDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(providertest.Go(t))
	w.shrink(1)
	a, b := w.provider(), w.provider()
	req := w.request()
	for attempt := int64(1); attempt <= 20; attempt++ {
		ref := w.ref(req, attempt)
		if attempt%2 == 0 {
			must(t, a.Create(context.Background(), req, ref)) // half of the time there is something to delete
		}
		var wg sync.WaitGroup
		for _, call := range []func() error{
			func() error { return a.Create(context.Background(), req, ref) },
			func() error { return b.Delete(context.Background(), ref) },
			func() error { return a.Delete(context.Background(), ref) },
			func() error { return b.Create(context.Background(), req, ref) },
		} {
			wg.Go(func() {
				// The one slot may be held a moment longer by a process that is ending.
				if err := call(); err != nil && provider.Class(err) != provider.ErrTransient {
					t.Errorf("attempt %d: %v", attempt, err)
				}
			})
		}
		wg.Wait()
		if n := len(w.processes()[req.Name]); n > 1 {
			t.Fatalf("attempt %d has %d processes", attempt, n)
		}
		switch inst, err := a.Get(context.Background(), w.old(ref)); {
		case provider.Class(err) == provider.ErrNotFound:
			w.nothingLeft(fmt.Sprintf("attempt %d is absent, but", attempt))
		case err != nil || inst.Marks.Attempt != attempt:
			t.Fatalf("attempt %d: Get = %+v, %v", attempt, inst, err)
		}
		w.deleted(a, ref)
		w.nothingLeft(fmt.Sprintf("after attempt %d", attempt))
	}
}
