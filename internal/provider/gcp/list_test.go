package gcp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	compute "google.golang.org/api/compute/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// fill puts n instances of this installation into two zones.
func (w *world) fill(n int) (ids []string) {
	for i := range n {
		uid := fmt.Sprintf("10000000-0000-4000-8000-%012d", i)
		ids = append(ids, gcpemulator.ID("project-a", []string{"us-central1-a", "us-central1-b"}[i%2], provider.NameFromUID(uid)))
		w.emulator.Place(ids[i], marked(uid, 1))
	}
	slices.Sort(ids)
	return ids
}

// foreign puts n VMs of others between them.
func (w *world) foreign(n int) {
	for i := range n {
		w.emulator.Place(gcpemulator.ID("project-a", "us-central1-a", fmt.Sprintf("other-%d", i)), map[string]string{"team": "another"})
	}
}

func TestEveryPageIsListed(t *testing.T) {
	for name, opts := range map[string]gcpemulator.Options{"as the API cuts them": {}, "full pages": {DensePages: true}} {
		t.Run(name, func(t *testing.T) {
			w := newT(t, opts)
			ids := w.fill(1100)
			w.foreign(700) // a page of which nothing matches
			w.emulator.SetEmptyPages(2)
			l, err := w.provider().ListByTag(t.Context())
			must(w.t, err)
			var got []string
			for _, inst := range l.Instances {
				got = append(got, inst.ID)
			}
			if !slices.Equal(got, ids) || len(l.Unread) > 0 {
				t.Errorf("%d listed, %q unread", len(got), l.Unread)
			}
		})
	}
}

func TestAListThatGoesInCirclesIsAnError(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	ref, _ := w.create(p)
	w.emulator.SetLoopingPages(true)
	_, err := p.ListByTag(t.Context())
	expect(t, "ListByTag", err, provider.ErrTransient, "", "does not end")
	_, err = p.Get(t.Context(), w.ref(w.request(), 1))
	expect(t, "Get, which lists operations", err, provider.ErrTransient, "", "does not end")
	w.emulator.SetLoopingPages(false)
	w.expect(t, "later", p, ref, "Running")
}

// A page that fails makes the whole list fail: what has been seen is not everything.
func TestAPageThatFails(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	w.fill(600)
	p := w.provider()
	for _, call := range []string{"disks.aggregatedList", "instances.aggregatedList"} {
		n := 0
		remove := w.emulator.Inject(gcpemulator.On(call), gcpemulator.Fault{OnCall: func() {
			if n++; n == 1 {
				w.emulator.InjectOnce(gcpemulator.On(call), gcpemulator.Fault{Status: 500})
			}
		}})
		l, err := p.ListByTag(t.Context())
		expect(t, call, err, provider.ErrTransient, "", "500")
		if len(l.Instances) > 0 || n != 2 {
			t.Errorf("%s: %d listed, with the call %d", call, len(l.Instances), n)
		}
		remove()
	}
}

func TestZonesThatCannotBeReachedAreUnread(t *testing.T) {
	for name, how := range map[string]gcpemulator.Unreachable{
		"the scope warns": gcpemulator.ScopeWarns, "the list fails without partial success": gcpemulator.ScopeFails, "the scope is missing": gcpemulator.ScopeMissing,
	} {
		t.Run(name, func(t *testing.T) {
			w := newT(t, gcpemulator.Options{})
			p := w.provider()
			here, _ := w.create(p)
			there, _ := w.create(p, func(r *provider.CreateRequest) { r.Placement.Zone = "europe-west1-b" })
			w.emulator.SetUnreachable("project-a", "europe-west1-b", how)
			shown, unread := w.list(p)
			if !slices.Equal(shown, []string{"Running " + here.ID}) || !slices.Equal(unread, []string{"zones/europe-west1-b"}) {
				t.Errorf("listed is %q, unread %q", shown, unread)
			}
			w.advance(past)
			_, err := p.Get(t.Context(), there)
			expect(t, "Get", err, provider.ErrTransient, "", "503")
			expect(t, "Delete", p.Delete(t.Context(), there), provider.ErrTransient, "", "503")
			w.emulator.SetUnreachable("project-a", "europe-west1-b", gcpemulator.Reachable)
			if shown, unread := w.list(p); len(shown) != 2 || len(unread) > 0 {
				t.Errorf("listed is %q, unread %q", shown, unread)
			}
		})
	}
}

// A warning that names no zone is about any.
func TestAWarningOfTheWholeList(t *testing.T) {
	for _, call := range []string{"disks.aggregatedList", "instances.aggregatedList"} {
		for code, want := range map[string][]string{"NO_RESULTS_ON_PAGE": nil, "UNREACHABLE": {"projects"}, "PARTIAL_SUCCESS": {"projects"}} {
			w := newT(t, gcpemulator.Options{})
			p := w.provider()
			w.emulator.InjectOnce(gcpemulator.On(call), gcpemulator.Fault{Status: 200, Body: `{"warning": {"code": "` + code + `"}}`})
			if _, unread := w.list(p); !slices.Equal(unread, want) {
				t.Errorf("%s with %s: unread is %q, want %q", call, code, unread, want)
			}
		}
	}
}

// Lists lag behind: what they do not show is asked for by name, and what they still show can be removed again.
func TestAListThatLags(t *testing.T) {
	w := newT(t, gcpemulator.Options{ListLag: 30 * time.Second})
	p := w.provider()
	ref, _ := w.create(p)
	shown, unread := w.list(p)
	if len(shown) > 0 || len(unread) > 0 {
		t.Errorf("listed is %q, unread %q", shown, unread)
	}
	w.expect(t, "not listed yet", p, ref, "Running")
	w.advance(time.Minute)
	if shown, _ := w.list(p); len(shown) != 1 {
		t.Errorf("listed is %q", shown)
	}
	must(w.t, p.Delete(t.Context(), ref))
	w.expect(t, "gone", p, ref, "not_found")
	l, err := p.ListByTag(t.Context())
	must(w.t, err)
	for _, inst := range l.Instances {
		must(w.t, p.Delete(t.Context(), provider.Ref{ID: inst.ID, UID: inst.Marks.UID, Attempt: inst.Marks.Attempt, Identity: inst.Identity}))
	}
	if n := len(w.operations("delete")); len(l.Instances) != 1 || n != 1 {
		t.Errorf("%d listed, %d removals", len(l.Instances), n)
	}
}

// A disk without a VM may be one whose VM is about to come: it counts as a rest only when it is older than any call.
func TestYoungDisksAreNoRests(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	ref, _ := w.create(p)
	w.emulator.LoseMain(ref.ID)
	if shown, _ := w.list(p); !slices.Equal(shown, []string{"Provisioning " + ref.ID}) {
		t.Errorf("at once: %q", shown)
	}
	w.advance(past)
	if shown, _ := w.list(p); !slices.Equal(shown, []string{"Terminated " + ref.ID}) {
		t.Errorf("later: %q", shown)
	}
}

// Where VM and disk are both listed, in whatever order they came, the VM counts.
func TestTheVMCountsBeforeItsDisk(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	ref, req := w.create(p)
	w.emulator.LoseMain(ref.ID)
	w.insert("us-central1-a", &compute.Instance{Name: req.Name, Labels: marked(req.UID, 2), Disks: []*compute.AttachedDisk{{
		Boot: true, InitializeParams: &compute.AttachedDiskInitializeParams{DiskName: "another"},
	}}})
	l, err := p.ListByTag(t.Context())
	must(w.t, err)
	if len(l.Instances) != 1 || l.Instances[0].State != provider.StateRunning || l.Instances[0].Marks.Attempt != 2 {
		t.Errorf("listed is %+v", l.Instances)
	}
}

func TestTheListAsksForItsOwnAlone(t *testing.T) {
	w := newT(t, gcpemulator.Options{DensePages: true})
	w.foreign(2)
	ref, req := w.create(w.provider())
	w.emulator.Place(gcpemulator.ID("project-b", "us-central1-a", req.Name), marked(req.UID, 1))
	other := owner
	other.Cluster = "cluster-b"
	theirs, _ := w.create(w.providerOf(entry, other))
	for id, o := range map[string]provider.Owner{ref.ID: owner, theirs.ID: other} {
		shown, _ := w.list(w.providerOf(entry, o))
		if len(shown) != 1 || !strings.HasSuffix(shown[0], id) {
			t.Errorf("listed is %q, want %s", shown, id)
		}
	}
}
