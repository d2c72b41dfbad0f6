package kubernetes_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func TestListShowsHalvesByTheirAge(t *testing.T) {
	w := newT(t)
	p := w.provider()
	ref, _ := w.created(p, w.guarded())
	w.remove(nameIn(ref.ID), w.pod(ref.ID).UID)
	state := func() provider.State {
		listing, err := p.ListByTag(t.Context())
		must(t0(t), err)
		if len(listing.Instances) != 1 {
			t.Fatalf("listed: %+v", listing.Instances)
		}
		return listing.Instances[0].State
	}
	if got := state(); got != provider.StateProvisioning {
		t.Errorf("a new Secret without a Pod is %s", got)
	}
	w.advance(time.Minute)
	if got := state(); got != provider.StateTerminated {
		t.Errorf("an old Secret without a Pod is %s", got)
	}
}

// TestAbsenceNeedsAReadableNamespace: the API server says of a Pod in a namespace that does not exist that it is not there.
func TestAbsenceNeedsAReadableNamespace(t *testing.T) {
	w := newT(t)
	w.extra = "namespaces: [missing]"
	p := w.provider()
	ref := w.old(provider.Ref{ID: "missing/" + provider.NameFromUID("x"), UID: "x", Attempt: 1})
	_, err := p.Get(t.Context(), ref)
	expect(t, "Get in a namespace that is missing", err, provider.ErrTransient, "")
	must(t0(t), p.Delete(t.Context(), ref))
	req := w.guarded()
	req.Namespace = "missing"
	expect(t, "Create there", p.Create(t.Context(), req, w.ref(req, 1)), provider.ErrPermanent, "")
}

// TestAbsenceIsOfEveryPart: a Secret that cannot be read may be there.
func TestAbsenceIsOfEveryPart(t *testing.T) {
	w := newT(t)
	p := w.provider()
	w.wire.add(&fault{match: on(http.MethodGet, "secrets"), do: refuse(http.StatusForbidden, "Forbidden", "no", nil)})
	req := w.guarded()
	_, err := p.Get(t.Context(), w.old(w.ref(req, 1)))
	expect(t, "Get", err, provider.ErrDenied, "")
	expect(t, "Delete", p.Delete(t.Context(), w.old(w.ref(req, 1))), provider.ErrDenied, "")
}

func TestForeignSecretIsLeftAlone(t *testing.T) {
	w := newT(t)
	p := w.provider()
	req := w.guarded()
	placed, err := w.kube.CoreV1().Secrets(w.namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: req.Name}}, metav1.CreateOptions{})
	must(t0(t), err)
	ref := w.ref(req, 1)
	expect(t, "Create", p.Create(t.Context(), req, ref), provider.ErrConflict, "")
	_, err = p.Get(t.Context(), w.old(ref))
	expect(t, "Get", err, provider.ErrConflict, "")
	_, err = p.Get(t.Context(), ref)
	expect(t, "Get within the window", err, provider.ErrConflict, provider.ReasonAbsenceUnproven)
	expect(t, "Delete", p.Delete(t.Context(), w.old(ref)), provider.ErrConflict, "")
	expect(t, "UpdateCredentials", p.UpdateCredentials(t.Context(), ref, *req.Credentials), provider.ErrConflict, "")
	now, err := w.kube.CoreV1().Secrets(w.namespace).Get(t.Context(), req.Name, metav1.GetOptions{})
	if err != nil || now.ResourceVersion != placed.ResourceVersion {
		t.Errorf("it was touched: %v", err)
	}
}

// TestOwnRestBesideAStrangersPod: what is ours under the name exists, and can be deleted, whoever has the rest.
func TestOwnRestBesideAStrangersPod(t *testing.T) {
	w := newT(t)
	p := w.provider()
	ref, _ := w.created(p, w.guarded())
	w.remove(nameIn(ref.ID), w.pod(ref.ID).UID)
	untouched := w.place(ref.ID)
	inst, err := p.Get(t.Context(), w.old(ref))
	if err != nil || inst.State != provider.StateTerminated {
		t.Errorf("Get = %+v, %v", inst, err)
	}
	must(t0(t), p.Delete(t.Context(), w.old(ref)))
	_, err = p.Get(t.Context(), w.old(ref))
	expect(t, "Get after that", err, provider.ErrConflict, "")
	if left, _ := w.leftovers(t.Context()); len(left) != 1 || !untouched() {
		t.Errorf("left: %v", left)
	}
}

// TestStrangerIsFasterThanThePod: the name is taken between the look and the sending of the Pod.
func TestStrangerIsFasterThanThePod(t *testing.T) {
	w := newT(t)
	p := w.provider()
	req := w.guarded()
	ref := w.ref(req, 1)
	untouched := func() bool { return false }
	w.wire.add(&fault{match: on(http.MethodPost, "pods"), once: true, do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		untouched = w.place(ref.ID)
		return next.RoundTrip(r)
	}})
	expect(t, "Create", p.Create(t.Context(), req, ref), provider.ErrConflict, "")
	if left, _ := w.leftovers(t.Context()); len(left) != 1 || !untouched() {
		t.Errorf("left: %v", left)
	}
}

// TestRestThatIsBeingDeleted: somebody's finalizer holds the Secret.
func TestRestThatIsBeingDeleted(t *testing.T) {
	w := newT(t)
	p := w.provider()
	ref, _ := w.created(p, w.guarded())
	api := w.kube.CoreV1().Secrets(w.namespace)
	secret, err := api.Get(t.Context(), nameIn(ref.ID), metav1.GetOptions{})
	must(t0(t), err)
	secret.Finalizers = []string{"example.com/held"}
	secret, err = api.Update(t.Context(), secret, metav1.UpdateOptions{})
	must(t0(t), err)
	must(t0(t), p.Delete(t.Context(), ref))
	must(t0(t), w.wait(t.Context()))
	for range 2 {
		if inst, err := p.Get(t.Context(), w.old(ref)); err != nil || inst.State != provider.StateDeleting {
			t.Errorf("Get = %+v, %v", inst, err)
		}
		must(t0(t), p.Delete(t.Context(), ref))
	}
	secret, err = api.Get(t.Context(), secret.Name, metav1.GetOptions{})
	must(t0(t), err)
	secret.Finalizers = nil
	_, err = api.Update(t.Context(), secret, metav1.UpdateOptions{})
	must(t0(t), err)
	_, err = p.Get(t.Context(), w.old(ref))
	expect(t, "Get in the end", err, provider.ErrNotFound, "")
}

func TestUnreadNamespacesAreNamed(t *testing.T) {
	w := newT(t)
	p := w.provider()
	w.created(p, w.guarded())
	w.wire.add(&fault{match: on(http.MethodGet, "namespaces/default"), do: refuse(http.StatusForbidden, "Forbidden", "no", nil)})
	listing, err := p.ListByTag(t.Context())
	must(t0(t), err)
	if len(listing.Instances) != 1 || !slices.Equal(listing.Unread, []string{"default"}) {
		t.Errorf("%d instances, unread %v", len(listing.Instances), listing.Unread)
	}
}

// TestListOfAllNamespaces needs no list of them.
func TestListOfAllNamespaces(t *testing.T) {
	w := newT(t)
	other := newT(t)
	w.extra = "namespaces: []"
	o := provider.Owner{Installation: "everywhere", Cluster: "cluster-a"}
	p := w.providerOf(entry, o)
	want := map[string]bool{}
	for i, place := range []*world{w, other} {
		req := w.guarded()
		req.Namespace = place.namespace
		ref := w.ref(req, int64(i+1))
		must(t0(t), p.Create(t.Context(), req, ref))
		want[ref.ID] = true
	}
	listing, err := p.ListByTag(t.Context())
	must(t0(t), err)
	for _, inst := range listing.Instances {
		if !want[inst.ID] {
			t.Errorf("%s is listed", inst.ID)
		}
		delete(want, inst.ID)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
}

// TestCopiesUnderOtherNamesAreNotListed: somebody has copied a Pod with its labels.
func TestCopiesUnderOtherNamesAreNotListed(t *testing.T) {
	w := newT(t)
	p := w.provider()
	ref, _ := w.created(p, w.guarded())
	original := w.pod(ref.ID)
	copied := bare("copy")
	copied.Labels, copied.Annotations = original.Labels, original.Annotations
	_, err := w.kube.CoreV1().Pods(w.namespace).Create(t.Context(), copied, metav1.CreateOptions{})
	must(t0(t), err)
	listing, err := p.ListByTag(t.Context())
	must(t0(t), err)
	if len(listing.Instances) != 1 {
		t.Errorf("listed: %+v", listing.Instances)
	}
}
