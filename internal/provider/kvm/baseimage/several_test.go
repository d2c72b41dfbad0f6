package baseimage_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/baseimage"
)

// A process is killed in mid-download: nothing of it is used, and it is removed once nobody can be writing it any more.
func TestKilledInMidDownload(t *testing.T) {
	reached, gate := make(chan struct{}), make(chan struct{})
	r := newRig(t, nil)
	var once sync.Once
	r.pool.before = func(_ context.Context, call, _ string) error {
		if call == "create marker" {
			once.Do(func() { close(reached) })
			<-gate
		}
		return nil
	}
	r.prepare()
	<-reached // all data is there and verified, which is the worst moment
	dead := r.cache
	r.pool = r.pool.survivor()
	left := r.pool.names()
	if len(left) != 1 {
		t.Fatalf("volumes %q", left)
	}
	close(gate)
	dead.Wait()

	r.cache = r.process(r.pool)
	if base, ok := r.find(); ok {
		t.Fatalf("%+v counts", base)
	}
	// It could be that of a living process, so it stays.
	r.clock.Step(baseimage.Whole)
	r.download()
	base := r.found()
	if base.Volume == left[0] || !slices.Contains(r.pool.names(), left[0]) {
		t.Fatalf("volumes %q, left was %q", r.pool.names(), left)
	}
	r.pool.vanish(base.Volume, base.Volume+ready)
	r.clock.Step(time.Hour)
	r.download()
	r.pool.vanish(r.found().Volume)
	if !slices.Contains(r.pool.names(), left[0]) {
		t.Fatal("it was removed on the dot")
	}
	r.clock.Step(time.Second)
	r.download()
	r.found()
	if slices.Contains(r.pool.names(), left[0]) {
		t.Errorf("volumes %q, left was %q", r.pool.names(), left)
	}
}

func TestWhatIsRemoved(t *testing.T) {
	r := newRig(t, nil)
	old := r.clock.Now().Add(-baseimage.Abandoned - time.Second)
	other := r.dataName(old, "00000005")
	other = strings.Replace(other, r.image.SHA256, sum([]byte("other")), 1)
	remove := []string{r.dataName(old, "00000001"), strings.Replace(r.dataName(old, "00000002"), "qcow2", "raw", 1)}
	keep := []string{
		r.dataName(r.clock.Now(), "00000003"), r.dataName(r.clock.Now().Add(100*time.Hour), "00000004"), other,
		"vm1", "x" + remove[0], remove[0] + "x",
		strings.Replace(r.dataName(old, "00000006"), "qcow2", "raw", 1), strings.Replace(r.dataName(old, "00000006"), "qcow2", "raw", 1) + ready,
		r.dataName(old, "00000007") + ready, // its data may be there and not be listed
	}
	for _, name := range slices.Concat(remove, keep) {
		r.pool.put(name, 9)
	}
	// Somebody published it, whatever became of its marker's size.
	odd := r.dataName(old, "00000008")
	r.pool.put(odd, 9)
	r.pool.put(odd+ready, 0)
	keep = append(keep, odd, odd+ready)
	r.download()
	base := r.found()
	want := slices.Concat(keep, []string{base.Volume, base.Volume + ready})
	slices.Sort(want)
	if got := r.pool.names(); !slices.Equal(got, want) {
		t.Errorf("volumes\n%q\nwant\n%q", got, want)
	}
}

// To remove them is a courtesy; the download goes on.
func TestLeftoversThatCannotBeRemoved(t *testing.T) {
	r := newRig(t, nil)
	r.pool.put(r.dataName(r.clock.Now().Add(-4*time.Hour), "00000001"), 1)
	r.pool.before = nth("delete", 1, errBoom)
	r.download()
	r.found()
}

// A process that dies in every download does not fill the pool.
func TestUnfinishedCopiesAreBounded(t *testing.T) {
	r := newRig(t, nil)
	for i := range baseimage.Unfinished {
		r.pool.put(r.dataName(r.clock.Now(), "0000000"+string(rune('0'+i))), 1)
	}
	r.download()
	f := r.failure(provider.ErrTransient, "8 unfinished copies", "3 hours")
	if r.hits.Load() != 0 || r.pool.count("create") != 0 {
		t.Error("it was downloaded")
	}
	r.clock.Step(f.RetryAfter)
	r.clock.Step(baseimage.Abandoned)
	r.download()
	r.found()
	if got := r.pool.names(); len(got) != 2 {
		t.Errorf("volumes %q", got)
	}
}

// Two processes download at once; the slower one finds the other's copy and removes its own.
func TestTheSlowerOfTwo(t *testing.T) {
	first, second := make(chan struct{}), make(chan struct{})
	var r *rig
	r = newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		if r.hits.Load() == 1 {
			close(first)
			<-second
		}
		r.serve(w, r.data)
	})
	r.prepare()
	<-first
	fast := r.process(r.pool)
	_ = fast.Prepare(t.Context(), r.image)
	fast.Wait()
	base := r.found()
	close(second)
	r.cache.Wait()
	if again := r.found(); again != base || len(r.pool.names()) != 2 {
		t.Errorf("%+v, then %+v; volumes %q", base, again, r.pool.names())
	}
	r.prepare() // it was no failure
	r.cache.Wait()
}

// Two publish in the same instant: both copies stay, and the first counts for everybody.
func TestTwoPublishAtOnce(t *testing.T) {
	r := newRig(t, nil)
	var both sync.WaitGroup
	both.Add(2)
	r.pool.before = func(_ context.Context, call, _ string) error {
		if call == "create marker" {
			both.Done()
			both.Wait()
		}
		return nil
	}
	other := r.process(r.pool)
	r.prepare()
	_ = other.Prepare(t.Context(), r.image)
	r.cache.Wait()
	other.Wait()
	names := r.pool.names()
	if len(names) != 4 || r.found().Volume != names[0] {
		t.Errorf("volumes %q, found %+v", names, r.found())
	}
	// The second is never removed.
	r.clock.Step(100 * time.Hour)
	r.download()
	if got := r.pool.names(); !slices.Equal(got, names) {
		t.Errorf("volumes %q", got)
	}
}

func TestManyProcessesAtOnce(t *testing.T) {
	r := newRig(t, nil)
	var caches []*baseimage.Cache
	for range 6 {
		c := r.process(r.pool)
		caches = append(caches, c)
		_ = c.Prepare(t.Context(), r.image)
	}
	for _, c := range caches {
		c.Wait()
	}
	r.found()
	for _, name := range r.pool.names() {
		if data := strings.TrimSuffix(name, ready); !slices.Contains(r.pool.names(), data+ready) {
			t.Errorf("unpublished data %q is left", name)
		}
	}
}

// A marker whose creation was sent may have come into being, and somebody may use its data.
func TestAMarkerWithoutAnswer(t *testing.T) {
	for _, effect := range []bool{true, false} {
		r := newRig(t, nil)
		if effect {
			r.pool.after = nth("create marker", 1, errBoom)
		} else {
			r.pool.before = nth("create marker", 1, errBoom)
		}
		r.download()
		if r.pool.count("delete") != 0 {
			t.Fatal("its data was removed")
		}
		if effect {
			r.found()
		} else {
			r.failure(provider.ErrTransient, "boom")
		}
		r.later()
		r.download()
		r.found()
		if r.hits.Load() != 1 || len(r.pool.names()) != 2 {
			t.Errorf("effect %v: %d downloads, volumes %q", effect, r.hits.Load(), r.pool.names())
		}
	}
}

// What could not be published is not published once others may take it for abandoned.
func TestAMarkerThatComesTooLate(t *testing.T) {
	r := newRig(t, nil)
	r.pool.before = nth("create marker", 1, errBoom)
	r.download()
	r.failure(provider.ErrTransient)
	first := r.pool.names()
	r.clock.Step(baseimage.Whole)
	r.download()
	if base := r.found(); base.Volume == first[0] || r.hits.Load() != 2 {
		t.Errorf("%+v is published, data was %q", base, first)
	}
}

// Another process publishes while our marker is not there: ours could still come, so our data stays.
func TestAMarkerThatIsSentKeepsItsData(t *testing.T) {
	r := newRig(t, nil)
	r.pool.before = nth("create marker", 1, errBoom)
	r.download()
	f := r.failure(provider.ErrTransient)
	ours := r.pool.names()[0]
	theirs := r.dataName(r.clock.Now(), "00000000")
	r.clock.Step(f.RetryAfter)
	lists := 0
	r.pool.before = func(_ context.Context, call, _ string) error {
		if call == "volumes" {
			if lists++; lists == 2 {
				r.pool.put(theirs, 1)
				r.pool.put(theirs+ready, 1)
			}
		}
		return nil
	}
	r.download()
	if !slices.Contains(r.pool.names(), ours) || slices.Contains(r.pool.names(), ours+ready) {
		t.Errorf("volumes %q", r.pool.names())
	}
	if base, _ := r.find(); base.Volume != theirs {
		t.Errorf("%+v counts", base)
	}
}

// A machine that slept wakes up: its download may be taken for abandoned by now, and must not be published.
func TestPublishingTooLate(t *testing.T) {
	r := newRig(t, nil)
	lists := 0
	r.pool.before = func(_ context.Context, call, _ string) error {
		if call == "volumes" {
			if lists++; lists == 2 {
				r.clock.Step(baseimage.Whole)
			}
		}
		return nil
	}
	r.download()
	if r.pool.count("create marker") != 0 {
		t.Error("a marker was made")
	}
	r.failed(provider.ErrTransient, "takes too long")
}

// The data is taken away by a person or another process before it is published.
func TestDataThatVanishes(t *testing.T) {
	r := newRig(t, nil)
	r.pool.after = func(_ context.Context, call, name string) error {
		if call == "upload" {
			r.pool.vanish(name)
		}
		return nil
	}
	r.download()
	r.failed(provider.ErrTransient, "has vanished")
}

// What a process has left itself it removes at its next try.
func TestOwnDebris(t *testing.T) {
	r := newRig(t, nil)
	broken := true
	r.pool.before = func(_ context.Context, call, _ string) error {
		if broken && (call == "upload" || call == "delete") {
			return errBoom
		}
		return nil
	}
	r.download()
	left := r.pool.names()
	if len(left) != 1 || r.pool.count("delete") != 0 {
		t.Fatalf("volumes %q", left)
	}
	f := r.failure(provider.ErrTransient, "boom")
	broken = false
	r.clock.Step(f.RetryAfter)
	r.download()
	r.found()
	if slices.Contains(r.pool.names(), left[0]) {
		t.Errorf("volumes %q", r.pool.names())
	}
}

// The connection goes down with the upload: the volume is removed on a new one.
func TestRemovalOnANewConnection(t *testing.T) {
	r := newRig(t, nil)
	r.pool.before = func() func(context.Context, string, string) error {
		opened, deletes := 0, 0
		return func(_ context.Context, call, _ string) error {
			switch call {
			case "open":
				opened++
			case "upload":
				return errors.New("connection lost")
			case "delete":
				if deletes++; opened < 2 {
					return errors.New("connection lost")
				}
			}
			return nil
		}
	}()
	r.download()
	r.failed(provider.ErrTransient, "connection lost")
}
