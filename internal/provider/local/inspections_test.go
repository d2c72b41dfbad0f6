package local

import (
	"context"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// A file system that hangs keeps a look for as long as it likes, whatever its context says. Nobody begins another beside
// it, and nobody hears what comes of one that was given up.
func TestALookThatIsStuck(t *testing.T) {
	var s inspections
	mended := make(chan struct{})
	begun := 0
	do := func(ctx context.Context) provider.TargetStatus {
		begun++
		<-mended
		if ctx.Err() != nil {
			return provider.TargetStatus{Reason: provider.CheckTimeout}
		}
		return provider.TargetStatus{Reason: provider.CheckReachable}
	}
	first := s.join(t.Context(), do)
	if got, ok := s.leave(first); ok {
		t.Errorf("while it is stuck it says %+v", got)
	}
	later := s.join(t.Context(), do)
	if later != first {
		t.Error("there is a second look beside the first")
	}
	close(mended)
	<-later.done
	if got, ok := s.leave(later); ok {
		t.Errorf("what was given up says %+v", got)
	}
	next := s.join(t.Context(), do)
	<-next.done
	if got, ok := s.leave(next); !ok || got.Reason != provider.CheckReachable || begun != 2 {
		t.Errorf("after the mending: %+v, %v, with %d looks", got, ok, begun)
	}
}
