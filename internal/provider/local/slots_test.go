package local

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func TestSlotsOfANetwork(t *testing.T) {
	for network, tc := range map[string]struct {
		n           int
		first, last string
		reason      string
	}{
		"192.0.2.64/27":   {30, "192.0.2.65", "192.0.2.94", "network and broadcast address are left out"},
		"192.0.2.64/30":   {2, "192.0.2.65", "192.0.2.66", "network and broadcast address are left out"},
		"192.0.2.64/31":   {2, "192.0.2.64", "192.0.2.65", "a point-to-point network has neither"},
		"192.0.2.64/32":   {1, "192.0.2.64", "192.0.2.64", "one address"},
		"2001:db8::/126":  {3, "2001:db8::1", "2001:db8::3", "the routers' anycast address is left out"},
		"2001:db8::/127":  {2, "2001:db8::", "2001:db8::1", "a point-to-point network has none"},
		"2001:db8::1/128": {1, "2001:db8::1", "2001:db8::1", "one address"},
	} {
		r := slotRange{network: netip.MustParsePrefix(network)}
		slots := slices.Collect(r.slots())
		if len(slots) != tc.n || slots[0].listen.String() != tc.first || slots[len(slots)-1].exit.String() != tc.last {
			t.Errorf("%s: %d slots from %v to %v; %s", network, len(slots), slots[0], slots[len(slots)-1], tc.reason)
		}
	}
}

func TestFreeLooksThroughABoundedPart(t *testing.T) {
	pool := []slotRange{{network: netip.MustParsePrefix("2001:db8::/64")}}
	fine := func(slot) error { return nil }
	var taken []record
	for a := netip.MustParseAddr("2001:db8::1"); len(taken) < maxPoolAddresses-1; a = a.Next() {
		taken = append(taken, record{Listen: a, Exit: a, Port: 3128})
	}
	s, err := free(pool, taken, 3128, fine)
	if err != nil || s.listen != netip.MustParseAddr("2001:db8::1:0") {
		t.Errorf("the last one = %v, %v", s, err)
	}
	taken = append(taken, record{Listen: s.listen, Exit: s.exit, Port: 3128})
	if _, err := free(pool, taken, 3128, fine); classOf(err) != provider.ErrQuotaExceeded {
		t.Errorf("one more = %v, want ErrQuotaExceeded", err)
	}
	tried := 0
	_, err = free(pool, nil, 3128, func(slot) error { tried++; return fmt.Errorf("number %d: not here", tried) })
	if classOf(err) != provider.ErrTransient || tried != maxUnusable || !strings.Contains(err.Error(), "number 1: not here") {
		t.Errorf("after %d tries: %v", tried, err)
	}
}

func TestFreeTakesTheFirstThatCanBeUsed(t *testing.T) {
	pool := []slotRange{{network: netip.MustParsePrefix("192.0.2.0/29")}}
	s, err := free(pool, nil, 3128, func(s slot) error {
		if s.listen.String() < "192.0.2.3" {
			return errors.New("in use")
		}
		return nil
	})
	if err != nil || s.listen.String() != "192.0.2.3" {
		t.Errorf("got %v, %v", s, err)
	}
}

func TestAForbiddenPortIsTheProxysAffair(t *testing.T) {
	pool := []slotRange{{network: netip.MustParsePrefix("192.0.2.0/29")}}
	_, err := free(pool, nil, 80, func(slot) error { return &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", unix.EACCES)} })
	if classOf(err) != provider.ErrPermanent {
		t.Errorf("%v is %v, want ErrPermanent: ErrDenied would stop the provider for everybody", err, classOf(err))
	}
}
