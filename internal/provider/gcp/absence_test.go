package gcp_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// A 404 counts only together with the proof that project and zone are there and can be read.
func TestWhatIsNotAboutTheVMIsNoAbsence(t *testing.T) {
	notFound := func(what string) gcpemulator.Fault {
		return gcpemulator.Fault{Status: http.StatusNotFound, Reason: "notFound", Message: "The resource '" + what + "' was not found"}
	}
	page := gcpemulator.Fault{Status: http.StatusNotFound, HTML: true}
	for _, tc := range []struct {
		reason string
		match  gcpemulator.Match
		fault  gcpemulator.Fault
		class  error
	}{
		{"the project", gcpemulator.Match{}, notFound("projects/project-a"), provider.ErrTransient},
		{"the zone", gcpemulator.Match{Zone: "us-central1-a"}, notFound("projects/project-a/zones/us-central1-a"), provider.ErrTransient},
		{"operations", gcpemulator.On("zoneOperations.list"), notFound("projects/project-a/zones/us-central1-a"), provider.ErrTransient},
		{"a front end's page", gcpemulator.Match{}, page, provider.ErrTransient},
		{"a page for the VM", gcpemulator.On("instances.get"), page, provider.ErrTransient},
		{"a page for the disk", gcpemulator.On("disks.get"), page, provider.ErrTransient},
		{"a zone that is said to be invalid, and is there", gcpemulator.On("instances.get"), gcpemulator.Fault{Status: http.StatusBadRequest, Reason: "invalid", Message: "Invalid value for field 'zone': 'us-central1-a'. Unknown zone."}, provider.ErrPermanent},
		{"a zone that may not be used", gcpemulator.On("instances.get"), gcpemulator.Fault{Status: http.StatusForbidden, Reason: "forbidden", Message: "Permission denied on 'locations/us-central1-a' (or it may not exist)."}, provider.ErrDenied},
		{"a redirect to a log-in page", gcpemulator.Match{}, gcpemulator.Fault{Status: http.StatusFound, HTML: true}, provider.ErrTransient},
		{"an answer that is a page", gcpemulator.On("instances.get"), gcpemulator.Fault{Status: http.StatusOK, HTML: true}, provider.ErrTransient},
		{"a list of operations that is a page", gcpemulator.On("zoneOperations.list"), gcpemulator.Fault{Status: http.StatusOK, HTML: true}, provider.ErrTransient},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := newT(t, gcpemulator.Options{})
			p := w.provider()
			gone := w.ref(w.request(), 1)
			w.advance(past)
			w.expect(t, "before", p, gone, "not_found")
			restore := w.emulator.Inject(tc.match, tc.fault)
			_, err := p.Get(t.Context(), gone)
			expect(t, "Get", err, tc.class, "")
			restore()
			w.expect(t, "after", p, gone, "not_found")
		})
	}
}

func TestADeletionNeedsTheSameProof(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	ref := w.ref(w.request(), 1)
	restore := w.emulator.Inject(gcpemulator.Match{}, gcpemulator.Fault{Status: http.StatusNotFound, Reason: "notFound", Message: "The resource 'projects/project-a' was not found"})
	expect(t, "Delete in a project that is said not to be there", p.Delete(t.Context(), ref), provider.ErrTransient, "", "projects/project-a")
	restore()
	must(w.t, p.Delete(t.Context(), ref))
	for _, call := range []string{"instances.get", "disks.get"} {
		w := newT(t, gcpemulator.Options{})
		p := w.provider()
		ref := w.ref(w.request(), 1)
		w.emulator.InjectOnce(gcpemulator.On(call), gcpemulator.Fault{Status: http.StatusNotFound, HTML: true})
		expect(t, "Delete", p.Delete(t.Context(), ref), provider.ErrTransient, "")
	}
}

// A zone that the project does not have is found out however the API words it: nothing is in it, nobody is denied, and its
// Proxy can be mended or removed.
func TestAZoneThatIsNotThere(t *testing.T) {
	for name, fault := range map[string]gcpemulator.Fault{
		"as an invalid value": {}, // what the emulator says
		"as one that may not be used": {
			Status: http.StatusForbidden, Reason: "forbidden", Message: "Permission denied on 'locations/europe-west1-a' (or it may not exist).",
		},
		"as a missing resource": {
			Status: http.StatusNotFound, Reason: "notFound", Message: "The resource 'projects/project-a/zones/europe-west1-a' was not found",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newT(t, gcpemulator.Options{})
			p := w.provider()
			req := w.request()
			req.Placement.Zone = "europe-west1-a" // b, c and d are there
			ref := w.ref(req, 1)
			if fault.Status != 0 {
				w.emulator.Inject(gcpemulator.Match{Zone: "europe-west1-a"}, fault)
			}
			// Where it looks like a VM that is missing, the insert is what fails.
			err := p.Create(t.Context(), req, ref)
			if provider.Class(err) != provider.ErrPermanent {
				t.Errorf("Create: %v, want it permanent", err)
			}
			w.expect(t, "within the window", p, ref, "Provisioning")
			w.advance(past)
			w.expect(t, "after it", p, ref, "not_found")
			if fault.Status != http.StatusNotFound {
				expect(t, "Create", err, provider.ErrPermanent, "", `placement.zone "europe-west1-a" is not a zone of project project-a`)
			}
			must(w.t, p.Delete(t.Context(), ref))

			// Where the zones cannot be listed, nothing is concluded.
			w.emulator.Inject(gcpemulator.On("zones.list"), gcpemulator.Fault{Status: http.StatusForbidden, Reason: "forbidden"})
			if got := w.state(p, ref); got == "not_found" || got == "Provisioning" {
				t.Errorf("without a list of zones it is %s", got)
			}
		})
	}
}

// What is absent in the last reading is not the effect of a call that came in between.
func TestACallThatArrivesWhileGetReads(t *testing.T) {
	for _, between := range []string{"zoneOperations.list", "disks.get"} {
		for _, then := range []string{"it stands", "it is gone but for its disk"} {
			t.Run(between+", "+then, func(t *testing.T) {
				w := newT(t, gcpemulator.Options{})
				p := w.provider()
				req := w.request()
				ref := w.ref(req, 1)
				w.emulator.InjectOnce(gcpemulator.On(between), gcpemulator.Fault{OnCall: func() {
					if err := w.provider().Create(t.Context(), req, ref); err != nil {
						t.Errorf("Create: %v", err)
					}
					if then != "it stands" {
						w.emulator.LoseMain(ref.ID)
					}
				}})
				got := w.state(p, ref)
				switch {
				case then == "it stands" && (got == "Running" || got == "Provisioning"):
				case between == "zoneOperations.list" && got == "Terminated": // the operation is read after that, and ended
				case got == "Provisioning":
				default:
					t.Errorf("Get says %s", got)
				}
				w.advance(past)
				w.expect(t, "later", p, ref, map[bool]string{true: "Running", false: "Terminated"}[then == "it stands"])
			})
		}
	}
}

// A record that was restored may be sent under a token that stands for a creation of long ago, which the API has forgotten.
func TestAnOldCreationIsNoProofForARestoredRecord(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	ref, req := w.create(p)
	w.emulator.Vanish(ref.ID)
	w.expect(t, "at once", p, ref, "not_found")
	w.advance(30 * time.Minute)
	again := w.ref(req, 1)
	w.expect(t, "the token still stands for it", p, again, "not_found")
	w.advance(40 * time.Minute)
	again = w.ref(req, 1)
	w.expect(t, "the token is free again", p, again, "Provisioning")
	w.emulator.InjectOnce(gcpemulator.On("instances.insert"), gcpemulator.Fault{ArriveAfter: 20 * time.Second})
	if err := p.Create(t.Context(), req, again); provider.Class(err) != provider.ErrTransient {
		t.Errorf("Create: %v", err)
	}
	w.expect(t, "while the call is on its way", p, again, "Provisioning")
	w.advance(30 * time.Second)
	w.expect(t, "once it has arrived", p, again, "Running")
	w.emulator.Vanish(ref.ID)
	w.expect(t, "and the later of the two creations counts", p, again, "not_found")
}

// Calls that can live longer than the API knows a token again leave only time as a proof.
func TestCallsThatOutliveTheTokens(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	w.window.CallTimeout = time.Hour
	p := w.provider()
	ref, _ := w.create(p)
	w.emulator.Vanish(ref.ID)
	w.advance(30 * time.Minute)
	w.expect(t, "within the window", p, ref, "Provisioning")
	w.advance(time.Hour)
	w.expect(t, "after it", p, ref, "not_found")
}

func TestTheLaterOfTwoCreationsCounts(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	ref, req := w.create(p)
	w.emulator.Vanish(ref.ID)
	w.advance(2 * time.Hour)
	again := w.ref(req, 1)
	w.emulator.InjectOnce(gcpemulator.On("instances.insert"), late(gcpemulator.OperationError{Code: "QUOTA_EXCEEDED", Message: "q"}))
	must(w.t, p.Create(t.Context(), req, again))
	w.expect(t, "the later one failed", p, again, "Failed quota_exceeded")
}
