package providertest_test

import (
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

func TestTheStatefulFakeObeysTheRulesForCheckers(t *testing.T) {
	for _, kind := range providertest.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			providertest.RunChecker(providertest.Go(t), providertest.BackendCheckerHarness(kind, providertest.BackendOptions{}, nil))
		})
	}
}

func TestTheProgrammableFakeObeysTheRulesForCheckers(t *testing.T) {
	providertest.RunChecker(providertest.Go(t), providertest.BackendCheckerHarness(providertest.KindName, providertest.BackendOptions{},
		func(b *providertest.Backend, name string, owner provider.Owner, w provider.Window) provider.Provider {
			return &providertest.FakeChecker{Fake: b.Fake(name, owner, w)}
		}))
}
