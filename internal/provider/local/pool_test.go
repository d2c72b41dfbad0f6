//go:build linux

package local_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// block returns the first three numbers of the world's addresses.
func (w *world) block() string {
	address, _, _ := strings.Cut(strings.TrimPrefix(w.pool, "[{listen: "), "/")
	return strings.TrimSuffix(address, ".0")
}

// shrink leaves the first n addresses of the pool.
func (w *world) shrink(n int) {
	block := w.block()
	entries := make([]string, n)
	for i := range entries {
		entries[i] = fmt.Sprintf("{listen: %s.%d}", block, i+1)
	}
	w.pool = "[" + strings.Join(entries, ", ") + "]"
}

func TestPortTaken(t *testing.T) {
	w := newWorld(providertest.Go(t))
	taken := w.block() + ".1"
	l, err := net.Listen("tcp", net.JoinHostPort(taken, strconv.Itoa(int(w.port))))
	must(t, err)
	defer l.Close()
	two := w.provider()
	w.shrink(1)
	one := w.provider()

	req := w.request()
	err = one.Create(context.Background(), req, w.ref(req, 1))
	expectClass(t, err, provider.ErrTransient)
	if want := fmt.Sprintf("%s:%d: bind: address already in use", taken, w.port); !strings.Contains(err.Error(), want) {
		t.Errorf("the message does not say %q: %v", want, err)
	}
	w.nothingLeft("after a Create that found the port taken")

	ref, inst := w.created(two, req)
	if inst.IP == taken {
		t.Errorf("it got %s, which somebody else uses", taken)
	}
	w.deleted(two, ref)
}

func TestAddressThatIsNotThisHosts(t *testing.T) {
	for key, pool := range map[string]string{
		"listen": "[{listen: 192.0.2.1}]", "exit": "[{listen: 127.0.0.1, exit: 192.0.2.1}]",
	} {
		t.Run(key, func(t *testing.T) {
			w := newWorld(providertest.Go(t))
			w.pool, w.extra = pool, "allowClients: [192.0.2.0/24]\n"
			req := w.request()
			err := w.provider().Create(context.Background(), req, w.ref(req, 1))
			expectClass(t, err, provider.ErrTransient)
			if !strings.Contains(err.Error(), "192.0.2.1") || !strings.Contains(err.Error(), "cannot assign requested address") {
				t.Errorf("the message does not say which address is missing: %v", err)
			}
			w.nothingLeft("after a refused Create")
		})
	}
}

func TestFullPoolIsQuotaExceeded(t *testing.T) {
	w := newWorld(providertest.Go(t))
	w.shrink(2)
	p := w.provider()
	first, _ := w.created(p, w.request())
	second, _ := w.created(p, w.request())
	w.kill(second.ID) // a stopped instance keeps its address
	req := w.request()
	err := p.Create(context.Background(), req, w.ref(req, 1))
	expectClass(t, err, provider.ErrQuotaExceeded)
	if want := fmt.Sprintf("no free address in the pool for port %d; 2 instances hold theirs", w.port); provider.Cause(err) != want {
		t.Errorf("the message is %q, want %q", provider.Cause(err), want)
	}
	other := w.request()
	other.Port++ // the exits are taken all the same
	expectClass(t, p.Create(context.Background(), other, w.ref(other, 1)), provider.ErrQuotaExceeded)
	w.deleted(p, second)
	third, inst := w.created(p, req)
	if inst.IP == w.running(p, first).IP {
		t.Errorf("two instances listen on %s", inst.IP)
	}
	w.deleted(p, first)
	w.deleted(p, third)
	w.nothingLeft("in the end")
}

func TestOneListenAddressServesSeveralExits(t *testing.T) {
	w := newWorld(providertest.Go(t))
	block := w.block()
	w.pool = fmt.Sprintf("[{listen: %s.1, exit: %[1]s.2}, {listen: %[1]s.1, exit: %[1]s.3}]", block)
	p := w.provider()
	first := w.request()
	a, one := w.created(p, first)
	same := w.request()
	expectClass(t, p.Create(context.Background(), same, w.ref(same, 1)), provider.ErrQuotaExceeded)
	same.Port = freePort(w.t, block+".1")
	b, two := w.created(p, same)
	if one.IP != two.IP || one.ExitAddress == two.ExitAddress || one.Port == two.Port {
		t.Errorf("got %+v and %+v, want one address with two ports and two exits", one, two)
	}
	w.deleted(p, a)
	w.deleted(p, b)
}
