package providertest_test

import (
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// slow is a cloud with everything that takes time.
func slow() providertest.BackendOptions {
	return providertest.BackendOptions{
		CreateDelay: 2 * time.Second, BootDelay: 5 * time.Second, DeleteDelay: 4 * time.Second, ListLag: 3 * time.Second,
		Visibility: 10 * time.Second,
	}
}

// steady is one that shows at once what it has accepted.
func steady() providertest.BackendOptions {
	o := slow()
	o.CreateDelay, o.ListLag = 0, 0
	return o
}

func TestStatefulConforms(t *testing.T) {
	for _, kind := range providertest.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			providertest.Run(providertest.Go(t), providertest.BackendHarness(kind, steady(), nil))
		})
	}
}

func TestStatefulWithTokensConformsOnALaggingBackend(t *testing.T) {
	forgetful := slow()
	forgetful.TokenMemory = time.Second
	for name, tc := range map[string]struct {
		kind providertest.Kind
		opts providertest.BackendOptions
	}{
		"gcp": {providertest.KindGCP, slow()}, "ec2": {providertest.KindEC2, slow()},
		"gcp forgetting ended operations": {providertest.KindGCP, forgetful},
	} {
		t.Run(name, func(t *testing.T) {
			providertest.Run(providertest.Go(t), providertest.BackendHarness(tc.kind, tc.opts, nil))
		})
	}
}

func TestFakeConforms(t *testing.T) {
	providertest.Run(providertest.Go(t), providertest.BackendHarness(providertest.KindName, providertest.BackendOptions{},
		func(b *providertest.Backend, name string, owner provider.Owner, w provider.Window) provider.Provider {
			return b.Fake(name, owner, w)
		}))
}
