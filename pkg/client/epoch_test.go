package client

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// Every lease of the older ledger is over as soon as any answer speaks of another.
func TestAnEpochChangeEndsEveryLease(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		r.put(name)
	}
	c := r.client()
	old := []*Lease{r.acquire(c, Request{}), r.acquire(c, Request{TTL: time.Hour}), r.acquire(c, Request{})}
	r.leadTo(r.newLedger())
	fresh := r.acquire(c, Request{})
	for _, l := range old {
		wantClosed(t, "the loss", l.Done())
		wantIs(t, l.Err(), ErrEpochChanged)
		if err := l.Report(t.Context(), ResultBanned, "x.example"); !errors.Is(err, ErrUnknownLease) {
			t.Errorf("report on it: %v", err)
		}
	}
	if fresh.Err() != nil {
		t.Fatal(fresh.Err())
	}
	must(t, c.Close(t.Context())) // before the second server
}

// An answer of the old ledger that was long under way does not end the leases of the new one.
func TestALateAnswerOfTheOldLedgerEndsNothing(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "b", "c"} {
		r.put(name)
	}
	c := r.client()
	must(t, r.acquire(c, Request{}).Release(t.Context())) // the client knows the old epoch
	reached, release := make(chan struct{}), make(chan struct{})
	var requests atomic.Int32
	r.on(func(w http.ResponseWriter, req *http.Request, pass http.Handler) bool {
		if requests.Add(1) > 1 {
			return false
		}
		close(reached)
		pass.ServeHTTP(heldBack{w, release}, req)
		return true
	})
	late := make(chan *Lease, 1)
	go func() {
		l, err := c.Acquire(t.Context(), Request{})
		if err != nil {
			t.Error(err)
		}
		late <- l
	}()
	wantClosed(t, "the request", reached)
	eventually(t, "the grant by the old ledger", func() bool { return r.ledger.Live() == 1 })
	r.leadTo(r.newLedger())
	fresh := r.acquire(c, Request{})
	close(release)
	if fresh.Err() != nil {
		t.Fatalf("the new lease is lost: %v", fresh.Err())
	}
	r.steps(10*time.Millisecond, "a lease of the new ledger", func() bool { return len(late) == 1 })
	if l := <-late; l == nil || l.Err() != nil || l.epoch != fresh.epoch {
		t.Fatalf("the late lease is %v", l)
	}
	r.acquire(c, Request{})
	if fresh.Err() != nil {
		t.Fatalf("the new lease is lost: %v", fresh.Err())
	}
	must(t, c.Close(t.Context())) // before the second server
}

// heldBack passes an answer on once release is closed.
type heldBack struct {
	http.ResponseWriter
	release chan struct{}
}

func (h heldBack) WriteHeader(status int) {
	<-h.release
	h.ResponseWriter.WriteHeader(status)
}
