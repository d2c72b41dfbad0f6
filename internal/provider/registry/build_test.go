package registry_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

type built struct {
	provider.Provider
	opts   provider.Options
	closed int
	err    error
}

func (b *built) Close() error { b.closed++; return b.err }

type decorated struct{ provider.Provider }

var owner = provider.Owner{Installation: "inst", Cluster: "cluster"}

// builder is a factory that keeps what it made.
type builder struct{ made []*built }

func (b *builder) factory(_ context.Context, opts provider.Options) (provider.Provider, error) {
	var cfg struct {
		Fail string `json:"fail"`
		Note string `json:"note"`
	}
	if err := opts.Block.Decode(&cfg); err != nil {
		return nil, err
	}
	switch cfg.Fail {
	case "":
	case "plain":
		return nil, errors.New("no such host key")
	default:
		return nil, opts.Block.Errorf("fail", "%q is refused", cfg.Fail)
	}
	p := &built{opts: opts}
	b.made = append(b.made, p)
	return p, nil
}

func build(t *testing.T, text string, b *builder, o provider.Owner) (*registry.Registry, error) {
	t.Helper()
	factories := map[string]registry.Factory{"local": b.factory, "gcp": b.factory}
	entries, err := registry.Parse([]byte(text), registry.Types(factories))
	if err != nil {
		t.Fatal(err)
	}
	return registry.Build(t.Context(), entries, factories, registry.BuildOptions{
		Owner:    o,
		Window:   provider.Window{Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)), CallTimeout: time.Second},
		Decorate: func(_ string, p provider.Provider) provider.Provider { return decorated{p} },
	})
}

const two = "providers:\n- {name: b, type: local, maxInstances: 3, namespaces: [x]}\n- {name: a, type: gcp, gcp: {note: n}}\n"

func TestBuild(t *testing.T) {
	b := &builder{}
	r, err := build(t, two, b, owner)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Names(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("Names = %v", got)
	}
	if all := r.All(); len(all) != 2 || all[0].Name != "a" || all[1].Name != "b" {
		t.Errorf("All = %v", all)
	}
	h, ok := r.Lookup("b")
	if !ok || h.Type != "local" || h.MaxInstances != 3 || len(h.Revision) != 16 {
		t.Errorf("Lookup(b) = %+v, %v", h, ok)
	}
	if _, ok := h.Provider.(decorated); !ok {
		t.Errorf("the provider is a %T, not decorated", h.Provider)
	}
	if !h.Allowed("x") || h.Allowed("y") {
		t.Error("namespaces of b are not kept")
	}
	if a, _ := r.Lookup("a"); !a.Allowed("y") {
		t.Error("an entry without namespaces must be open to all")
	}
	if _, ok := r.Lookup("c"); ok {
		t.Error("found a provider nobody configured")
	}
	if o := b.made[0].opts; o.Name != "b" || o.Owner != owner || o.Window.CallTimeout != time.Second {
		t.Errorf("options = %+v", o)
	}
}

func TestCloseClosesEveryProviderOnce(t *testing.T) {
	b := &builder{}
	r, err := build(t, two, b, owner)
	if err != nil {
		t.Fatal(err)
	}
	b.made[0].err = errors.New("still busy")
	if err := r.Close(); err == nil || err.Error() != "still busy" {
		t.Errorf("Close = %v", err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("second Close = %v", err)
	}
	for _, p := range b.made {
		if p.closed != 1 {
			t.Errorf("%s closed %d times", p.opts.Name, p.closed)
		}
	}
	if len(r.All()) != 0 {
		t.Error("a closed registry still hands out providers")
	}
}

func TestBuildFailsWhole(t *testing.T) {
	b := &builder{}
	_, err := build(t, `providers:
- {name: good, type: local}
- {name: bad, type: local, local: {fail: own}}
- {name: worse, type: gcp, gcp: {fail: plain}}
- name: typo
  type: gcp
  gcp:
    nota: x
`, b, owner)
	want := []string{
		`line 3: provider "bad": local.fail: "own" is refused`,
		`line 4: provider "worse": no such host key`,
		`line 8: provider "typo": gcp.nota: unknown key`,
	}
	if err == nil || !slices.Equal(strings.Split(err.Error(), "\n"), want) {
		t.Fatalf("got\n%v\nwant\n%s", err, strings.Join(want, "\n"))
	}
	if len(b.made) != 1 || b.made[0].closed != 1 {
		t.Error("the provider that was built must have been closed")
	}
	if _, err := build(t, two, b, provider.Owner{}); err == nil {
		t.Error("an owner without installation was accepted")
	}
	entries, _ := registry.Parse([]byte(two), []string{"gcp", "local"})
	if _, err := registry.Build(t.Context(), entries, nil, registry.BuildOptions{Owner: owner}); err == nil {
		t.Error("entries without a factory were accepted")
	}
}

func TestRevision(t *testing.T) {
	of := func(text string, o provider.Owner) string {
		r, err := build(t, text, &builder{}, o)
		if err != nil {
			t.Fatal(err)
		}
		h, _ := r.Lookup("a")
		return h.Revision
	}
	base := of("providers: [{name: a, type: gcp, gcp: {note: n}}]", owner)
	for reason, text := range map[string]string{
		"order, comments, nulls and style": "# c\nproviders:\n- gcp:\n    note: 'n' # c\n    fail: null\n  type: gcp\n  name: a\n",
		"a neighbour":                      "providers: [{name: z, type: gcp}, {name: a, type: gcp, gcp: {note: n}}]",
	} {
		if got := of(text, owner); got != base {
			t.Errorf("%s changed the revision", reason)
		}
	}
	for reason, text := range map[string]string{
		"another value":  "providers: [{name: a, type: gcp, gcp: {note: m}}]",
		"another type":   "providers: [{name: a, type: local, local: {note: n}}]",
		"another cap":    "providers: [{name: a, type: gcp, maxInstances: 1, gcp: {note: n}}]",
		"more namespace": "providers: [{name: a, type: gcp, namespaces: [x], gcp: {note: n}}]",
	} {
		if got := of(text, owner); got == base {
			t.Errorf("%s left the revision as it was", reason)
		}
	}
	if of("providers: [{name: a, type: gcp, gcp: {note: n}}]", provider.Owner{Installation: "inst", Cluster: "other"}) == base {
		t.Error("the revision is not keyed")
	}
}
