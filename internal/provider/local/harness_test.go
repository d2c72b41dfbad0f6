package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// conformance is what the suite wants to happen to coming calls.
type conformance struct {
	loseAnswer bool
	arriveLate time.Duration
	late       func()
	due        time.Time
	deleteHold func(step string)
}

func conformanceEnv(t providertest.T) *providertest.Env {
	w := newWorld(t)
	w.window.CallTimeout = 5 * time.Second // what the provider makes of anything longer
	bad := func(field, value string, change func(*provider.CreateRequest)) providertest.Invalid {
		req := w.request()
		change(&req)
		return providertest.Invalid{Request: req, Field: field, Value: value}
	}
	env := &providertest.Env{
		Provider: func(name string, o provider.Owner) provider.Provider {
			p := w.providerOf(name, o)
			p.OnStep(w.onStep)
			return conforming{p, w}
		},
		Owner:   owner,
		Request: w.request,
		Invalid: []providertest.Invalid{
			bad("placement.zone", "nowhere", func(r *provider.CreateRequest) { r.Placement.Zone = "nowhere" }),
			bad("placement.region", "eu", func(r *provider.CreateRequest) { r.Placement.Region = "eu" }),
			bad("placement.machineType", "large", func(r *provider.CreateRequest) { r.Placement.MachineType = "large" }),
			bad("placement.image", "debian", func(r *provider.CreateRequest) { r.Placement.Image = "debian" }),
			bad("port", "70000", func(r *provider.CreateRequest) { r.Port = 70000 }),
			bad("name", "proxy-somebody", func(r *provider.CreateRequest) { r.Name = "proxy-somebody" }),
			bad("cloudInit", "", func(r *provider.CreateRequest) { r.CloudInit = "#cloud-config" }),
		},
		ForeignIDs:   []string{"hosts/other-host/processes/" + w.request().Name},
		MalformedIDs: []string{"hosts/" + host + "/processes/", "hosts/" + host + "/processes/proxy-UPPER", "hosts//processes/x"},
		Window:       w.window,
		Wait:         w.wait,
		Leftovers:    func(context.Context) ([]string, error) { return w.leftovers(), nil },
		Many:         12,
		NoCloudInit:  true,

		Advance:    w.advance,
		HoldCreate: w.holdFolder,
		HoldGet:    w.holdFolder,
		HoldDelete: w.holdDelete,
		LoseAnswer: func() { w.loseAnswer = true },
		ArriveLate: func(d time.Duration) { w.arriveLate = d },
		ShowLate: func(d time.Duration) {
			if d != 0 { // the folder shows at once what it has
				t.Fatalf("cannot show a creation %s late", d)
			}
		},
		Place:        w.place,
		Stop:         w.kill,
		Vanish:       w.vanish,
		Confuse:      w.confuse,
		BreakScope:   func(string) func() { return w.moveAway() },
		ExhaustQuota: w.fillPool,
		LoseMain: func(id string) {
			w.kill(id)
			must(t, errors.Join(os.Remove(w.file(id, ".log")), os.Remove(w.file(id, ".auth"))))
		},
		CredentialRevision: w.acceptedRevision,
	}
	if os.Geteuid() != 0 {
		env.Deny = w.deny
	}
	return env
}

// conforming is the provider as the suite calls it. It gives different credentials different passwords, as revisions
// promise, and does to calls what the suite ordered.
type conforming struct {
	*local.Provider
	w *world
}

func revised(c provider.Credentials) provider.Credentials {
	c.Password += "." + c.Revision
	return c
}

func (c conforming) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	if req.Credentials != nil {
		changed := revised(*req.Credentials)
		req.Credentials = &changed
	}
	switch w := c.w; {
	case w.loseAnswer:
		w.loseAnswer = false
		w.start(job{Do: "create", Reqs: []provider.CreateRequest{req}, Refs: []provider.Ref{ref}, DieAt: "done"}).begin().ended()
		return provider.Wrap(provider.ErrTransient, "create", "hosts", ref.ID, errors.New("the process died after its call"))
	case w.arriveLate > 0:
		w.due, w.late = w.clock.Now().Add(w.arriveLate), func() {
			if err := c.Provider.Create(context.Background(), req, ref); err != nil {
				w.t.Errorf("the late Create = %v", err)
			}
		}
		w.arriveLate = 0
		return provider.Wrap(provider.ErrTransient, "create", "hosts", ref.ID, errors.New("the call is on its way"))
	}
	return c.Provider.Create(ctx, req, ref)
}

func (c conforming) UpdateCredentials(ctx context.Context, ref provider.Ref, creds provider.Credentials) error {
	return c.Provider.UpdateCredentials(ctx, ref, revised(creds))
}

func (w *world) wait(ctx context.Context) error {
	t := time.NewTimer(tick)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	w.advance(tick)
	if w.late != nil {
		w.advance(100 * time.Millisecond)
		if !w.clock.Now().Before(w.due) {
			w.late()
			w.late = nil
		}
	}
	return nil
}

func (w *world) onStep(step string) {
	w.mu.Lock()
	f := w.deleteHold
	w.mu.Unlock()
	if f != nil {
		f(step)
	}
}

// holdDelete pauses the next Delete once it has found its instance.
func (w *world) holdDelete() (<-chan struct{}, func()) {
	reached, released := make(chan struct{}), make(chan struct{})
	var arrive, release sync.Once
	w.mu.Lock()
	w.deleteHold = func(step string) {
		if step == "found" {
			arrive.Do(func() { close(reached); <-released })
		}
	}
	w.mu.Unlock()
	return reached, func() { release.Do(func() { close(released) }) }
}

// holdFolder keeps the folder's lock. reached is closed when a call of this process waits for it, which shows in its
// having opened the folder.
func (w *world) holdFolder() (<-chan struct{}, func()) {
	f, err := os.Open(w.dir)
	must(w.t, err)
	must(w.t, unix.Flock(int(f.Fd()), unix.LOCK_EX)) //nolint:gosec // descriptors fit
	before := w.descriptors()
	reached, stop, stopped := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		if within(patience, func() bool {
			select {
			case <-stop:
				return true
			default:
				return w.descriptors() > before
			}
		}) {
			close(reached)
		}
	}()
	var once sync.Once
	release := func() { once.Do(func() { close(stop); <-stopped; _ = f.Close() }) }
	w.t.Cleanup(release)
	return reached, release
}

// descriptors counts those of this process that are of the folder.
func (w *world) descriptors() (n int) {
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range links {
		if target, _ := os.Readlink(link); target == w.dir {
			n++
		}
	}
	return n
}

func (w *world) place(id string) func() bool {
	file, content := w.file(id, ".json"), []byte(`{"somebody": "else's"}`)
	must(w.t, os.WriteFile(file, content, 0o600))
	placed, err := os.Stat(file)
	must(w.t, err)
	return func() bool {
		now, err := os.Stat(file)
		data, _ := os.ReadFile(file)
		return err == nil && os.SameFile(placed, now) && bytes.Equal(data, content)
	}
}

func (w *world) vanish(id string) {
	w.kill(id)
	for _, suffix := range []string{".auth", ".log", ".json"} {
		if err := os.Remove(w.file(id, suffix)); err != nil && !os.IsNotExist(err) {
			w.t.Fatalf("%v", err)
		}
	}
}

// confuse lets a process that is no proxy have the record.
func (w *world) confuse(id string) {
	w.kill(id)
	w.start(job{Do: "hold", Path: w.file(id, ".json")})
}

func (w *world) moveAway() (restore func()) {
	must(w.t, os.Rename(w.dir, w.dir+".away"))
	return func() { must(w.t, os.Rename(w.dir+".away", w.dir)) }
}

func (w *world) deny() (restore func()) {
	must(w.t, os.Chmod(w.dir, 0))
	return func() { must(w.t, os.Chmod(w.dir, 0o700)) } //nolint:gosec // a folder
}

// fillPool gives every address to another installation.
func (w *world) fillPool() (restore func()) {
	var files []string
	block := strings.TrimSuffix(strings.TrimPrefix(w.pool, "[{listen: "), "0/27}]")
	for i := 1; i < 31; i++ {
		uid := fmt.Sprintf("filler-%d", i)
		id := "hosts/" + host + "/processes/" + provider.NameFromUID(uid)
		must(w.t, os.WriteFile(w.file(id, ".json"), fmt.Appendf(nil,
			`{"version":1,"host":%q,"name":%q,"identity":"i","marks":{"uid":%q,"installation":"x","cluster":"y","attempt":1},"listen":"%s%d","port":1,"exit":"%[4]s%[5]d"}`,
			host, provider.NameFromUID(uid), uid, block, i), 0o600))
		files = append(files, w.file(id, ".json"))
	}
	return func() {
		for _, file := range files {
			must(w.t, os.Remove(file))
		}
	}
}
