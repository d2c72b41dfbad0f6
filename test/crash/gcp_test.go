package crash

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestMatrixOnGCP is TestMatrix with the provider gcp in front of an emulator of Compute Engine.
func TestMatrixOnGCP(t *testing.T) {
	points, whole := matrix(t, onGCP(newWire(t)))
	for _, name := range []string{"create", "delete", "delete disk", "make rule", "change rule", "remove rule"} {
		if whole && points[name] == 0 {
			t.Errorf("no death around %q", name)
		}
	}
}

// TestAnythingOnGCP is TestAnything with the provider gcp.
func TestAnythingOnGCP(t *testing.T) {
	t.Parallel()
	x := newWire(t)
	rapid.Check(t, func(t *rapid.T) {
		happen(t, onGCP(x), rapid.SampledFrom([]visibility{
			{name: "at once"}, {name: "after 20 s", delay: 20 * time.Second}, {name: "at once, lists lag", lag: 40 * time.Second},
			{name: "after 20 s, nothing is remembered", delay: 20 * time.Second, forget: true}, {name: "with a firewall rule", rule: true},
		}).Draw(t, "visibility"))
	})
}

// TestSameSeedSameRunOnGCP: without this, no failure could be replayed. What reaches the emulator is the same to the byte,
// through sockets and all.
func TestSameSeedSameRunOnGCP(t *testing.T) {
	t.Parallel()
	on := onGCP(newWire(t))
	for _, vis := range on.visible {
		var told [2]string
		for i := range told {
			w := newWorld(on, vis, 3)
			w.killAt, w.when = 4, unanswered
			err := w.tell(again("zone edit during delete"))
			told[i] = fmt.Sprint(err, w.effects, strings.Join(w.backend.history(), "\n"))
			w.close()
		}
		if told[0] != told[1] {
			t.Errorf("%s: two runs differ:\n%s\n%s", vis.name, told[0], told[1])
		}
	}
}
