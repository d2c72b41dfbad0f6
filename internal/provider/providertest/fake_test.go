package providertest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

func newFake() *providertest.Fake {
	c := clocktesting.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
	return providertest.NewFake("exits", owner, provider.Window{Clock: c, CallTimeout: time.Second})
}

func TestFakeAnswersInOrder(t *testing.T) {
	f, ctx := newFake(), t.Context()
	first, own := errors.New("first"), errors.New("own")
	f.Next("delete", first, nil)
	f.DeleteFunc = func(context.Context, provider.Ref) error { return own }
	for i, want := range []error{first, own, own} {
		if err := f.Delete(ctx, provider.Ref{ID: "x"}); !errors.Is(err, want) {
			t.Errorf("Delete number %d = %v, want %v", i+1, err, want)
		}
	}
	f.DeleteFunc = nil
	if err := f.Delete(ctx, provider.Ref{ID: "x"}); provider.Reason(err) != provider.ReasonScopeMismatch {
		t.Errorf("unscripted Delete = %v, want the correct provider's answer", err)
	}
}

func TestFakeScriptsEveryCall(t *testing.T) {
	f, ctx := newFake(), t.Context()
	f.PlanFunc = func(context.Context, provider.CreateRequest) (string, error) { return "planned", nil }
	f.CreateFunc = func(context.Context, provider.CreateRequest, provider.Ref) error { return nil }
	f.GetFunc = func(context.Context, provider.Ref) (*provider.Instance, error) {
		return &provider.Instance{State: provider.StateUnknown}, nil
	}
	f.ListFunc = func(context.Context) (provider.Listing, error) {
		return provider.Listing{Unread: []string{"all"}}, nil
	}
	f.UpdateFunc = func(context.Context, provider.Ref, provider.Credentials) error { return nil }
	ref := provider.Ref{ID: "planned"}
	if id, err := f.Plan(ctx, provider.CreateRequest{UID: "u"}); id != "planned" || err != nil {
		t.Errorf("Plan = %q, %v", id, err)
	}
	if err := f.Create(ctx, provider.CreateRequest{UID: "u"}, ref); err != nil {
		t.Errorf("Create = %v", err)
	}
	if inst, err := f.Get(ctx, ref); err != nil || inst.State != provider.StateUnknown {
		t.Errorf("Get = %v, %v", inst, err)
	}
	if l, err := f.ListByTag(ctx); err != nil || len(l.Unread) != 1 {
		t.Errorf("ListByTag = %v, %v", l, err)
	}
	if err := f.UpdateCredentials(ctx, ref, provider.Credentials{Revision: "r"}); err != nil {
		t.Errorf("UpdateCredentials = %v", err)
	}
	for _, op := range []string{"plan", "create", "get", "list", "updatecredentials"} {
		f.Next(op, errors.New("queued"))
	}
	_, planErr := f.Plan(ctx, provider.CreateRequest{})
	_, getErr := f.Get(ctx, ref)
	_, listErr := f.ListByTag(ctx)
	for _, err := range []error{
		planErr, getErr, listErr, f.Create(ctx, provider.CreateRequest{}, ref),
		f.UpdateCredentials(ctx, ref, provider.Credentials{}),
	} {
		if err == nil || err.Error() != "queued" {
			t.Errorf("a queued error came out as %v", err)
		}
	}
	if n := len(f.Calls()); n != 10 {
		t.Errorf("%d calls recorded, want 10", n)
	}
	creates := f.Calls("create", "updatecredentials")
	if len(creates) != 4 || creates[0].Request.UID != "u" || creates[0].Ref != ref || creates[1].Credentials.Revision != "r" {
		t.Errorf("recorded %d creates and updates, in another order or without their arguments", len(creates))
	}
	f.Reset()
	if len(f.Calls()) != 0 {
		t.Error("calls survive Reset")
	}
}

func TestRecorderKeepsWhatHappened(t *testing.T) {
	r := providertest.NewRecorder(t.Context())
	var order []string
	r.Run("fatal", func(p providertest.T) {
		p.Cleanup(func() { order = append(order, "first") })
		p.Cleanup(func() { order = append(order, "second") })
		p.Fatalf("no %s", "way")
		p.Errorf("not reached")
	})
	r.Run("skip", func(p providertest.T) { p.Skipf("later") })
	r.Run("panic", func(providertest.T) { panic("oh") })
	r.Run("parent", func(p providertest.T) {
		if p.Run("child", func(p providertest.T) { p.Errorf("bad") }) {
			t.Error("a failing part counts as passed")
		}
	})
	if !r.Run("good", func(p providertest.T) { p.Logf("fine") }) {
		t.Error("a passing part counts as failed")
	}
	for name, want := range map[string]providertest.Outcome{
		"fatal": {Failed: true}, "skip": {Skipped: true}, "panic": {Failed: true}, "parent": {Failed: true},
		"parent/child": {Failed: true}, "good": {},
	} {
		got, ok := r.Outcome(name)
		if !ok || got.Failed != want.Failed || got.Skipped != want.Skipped || len(got.Messages) != 1 {
			t.Errorf("%s: %+v, ran %v", name, got, ok)
		}
	}
	if len(order) != 2 || order[0] != "second" {
		t.Errorf("cleanups ran as %v", order)
	}
}
