package client

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestReportsLetTheProxyRest(t *testing.T) {
	r := newRig(t)
	r.put("a", unlimited)
	c := r.client()
	l := r.acquire(c, Request{Target: "shop.example"})
	if err := l.Report(t.Context(), "great", ""); err == nil || !strings.Contains(err.Error(), "great") {
		t.Errorf("error is %v", err)
	}
	if err := l.Report(t.Context(), ResultBanned, "a b"); err == nil {
		t.Error("an impossible target is taken")
	}
	must(t, l.Report(t.Context(), ResultOK, ""))
	must(t, l.Release(t.Context()))
	// Late reports count, and default to the lease's target.
	must(t, l.Report(t.Context(), ResultBanned, ""))
	_, err := c.Acquire(t.Context(), Request{Target: "shop.example"})
	var none *NoMatchError
	if !errors.As(err, &none) || none.InCooldown != 1 {
		t.Fatalf("error is %v", err)
	}
	r.acquire(c, Request{Target: "other.example"})
	must(t, c.ClearCooldowns(t.Context(), "ns", "a", "SHOP.example"))
	r.acquire(c, Request{Target: "shop.example"})
	wantIs(t, c.ClearCooldowns(t.Context(), "ns", "nobody", ""), ErrNotFound)
}

func TestRotatedCredentialsArriveWithARenewal(t *testing.T) {
	r := newRig(t)
	r.put("a")
	c := r.client()
	l := r.acquire(c, Request{TTL: time.Minute})
	key := types.NamespacedName{Namespace: "ns", Name: "a"}
	next := *r.fleet.Get(key)
	credentials := *next.Credentials
	credentials.Password, credentials.Revision = "rotated-SENTINEL", "2"
	next.Credentials = &credentials
	r.fleet.Apply(&next)
	// As the health engine does when a probe with them has worked.
	v := r.fleet.Get(key).Verdict
	v.Subject.CredentialRevision = credentials.Revision
	if !r.fleet.Promote(key, credentials.Revision, v) {
		t.Fatal("not rotated")
	}
	r.stepToRenewal(l)
	u, err := l.HTTPProxy(nil)
	must(t, err)
	if password, _ := u.User.Password(); password != "rotated-SENTINEL" {
		t.Error("the old credentials are still used")
	}
}
