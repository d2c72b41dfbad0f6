package kvm_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// TestCheckConforms runs the suite for checkers. It is not parallel: the suite counts goroutines.
func TestCheckConforms(t *testing.T) {
	seen := &skips{T: providertest.Go(t), all: new([]string)}
	providertest.RunChecker(seen, func(t providertest.T) *providertest.CheckerEnv {
		w := newWorld(t)
		on := func(host string, match func(string) bool, code libvirt.ErrorNumber) func() func() {
			return func() func() { return w.wires[host].Add(match, fails(code)) }
		}
		ids := map[string]string{}
		for _, host := range []string{hostA, hostB} {
			ids[host] = "hosts/" + host + "/domains/" + provider.NameFromUID("x")
		}
		a := []string{hostA}
		return &providertest.CheckerEnv{
			Env: w.conformance(), Targets: []string{hostB, hostA}, IDs: ids,
			States: []providertest.CheckState{
				{Name: "no authorisation", Reason: provider.CheckUnauthorized, Targets: a, Bring: on(hostA, libvirttest.On("ConnectGetVersion"), libvirt.ErrAuthFailed)},
				{Name: "not allowed", Reason: provider.CheckForbidden, Targets: a, Bring: on(hostA, libvirttest.On("ConnectListAllDomains"), libvirt.ErrAccessDenied)},
				{Name: "no pool", Reason: kvm.CheckPoolNotFound, Targets: a, Bring: on(hostA, libvirttest.On("StoragePoolLookupByName"), libvirt.ErrNoStoragePool)},
				{Name: "a pool that is off", Reason: kvm.CheckPoolUnusable, Targets: []string{hostB}, Bring: func() func() {
					w.daemons[hostB].SetPool("", libvirt.StoragePoolInactive)
					return func() { w.daemons[hostB].SetPool("", libvirt.StoragePoolRunning) }
				}},
				{Name: "an error", Reason: provider.CheckAPIError, Targets: []string{hostB}, Bring: on(hostB, libvirttest.On("StoragePoolGetInfo"), libvirt.ErrInternalError)},
			},
			Say: func(text string) func() {
				say := func(string, func() error) error {
					return libvirt.Error{Code: uint32(libvirt.ErrInternalError), Message: text}
				}
				mendA, mendB := w.wires[hostA].Add(libvirttest.All, say), w.wires[hostB].Add(libvirttest.All, say)
				return func() { mendA(); mendB() }
			},
			Hang: func(host string) func() {
				free := make(chan struct{})
				mend := w.wires[host].Add(libvirttest.All, func(_ string, do func() error) error { <-free; return do() })
				return sync.OnceFunc(func() { mend(); close(free) })
			},
		}
	})
	if len(*seen.all) > 0 {
		t.Errorf("skipped were %s", strings.Join(*seen.all, ", "))
	}
}
