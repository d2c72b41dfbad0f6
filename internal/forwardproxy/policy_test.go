package forwardproxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestPolicyRefusesWhatIsNotPublic(t *testing.T) {
	cases := []struct{ addr, reason string }{
		{"0.0.0.0", "unspecified"}, {"0.1.2.3", "unspecified"},
		{"127.0.0.1", "loopback"}, {"127.255.255.254", "loopback"},
		{"10.0.0.1", "private"}, {"172.16.0.1", "private"}, {"172.31.255.255", "private"}, {"192.168.1.1", "private"},
		{"100.64.0.1", "carrier-grade NAT"}, {"100.127.255.255", "carrier-grade NAT"},
		{"169.254.1.1", "link-local"}, {"169.254.169.254", "a metadata service"},
		{"168.63.129.16", "a metadata service"}, {"100.100.100.200", "a metadata service"},
		{"192.0.0.1", "for protocol assignments"}, {"192.0.2.1", "for documentation"},
		{"198.51.100.1", "for documentation"}, {"203.0.113.1", "for documentation"},
		{"198.18.0.1", "for benchmarks"}, {"198.19.255.255", "for benchmarks"}, {"192.88.99.1", "a 6to4 relay"},
		{"224.0.0.1", "multicast"}, {"239.255.255.255", "multicast"}, {"240.0.0.1", "reserved"}, {"255.255.255.255", "reserved"},
		{"::", "unspecified"}, {"::1", "loopback"}, {"fe80::1", "link-local"}, {"fe80::1%eth0", "link-local"},
		{"fec0::1", "site-local"}, {"fc00::1", "private"}, {"fd12::1", "private"}, {"fd00:ec2::254", "a metadata service"},
		{"ff02::1", "multicast"}, {"2001::1", "Teredo"}, {"2001:20::1", "for protocol assignments"},
		{"2001:db8::1", "for documentation"}, {"3fff::1", "for documentation"}, {"100::1", "discard-only"},
		{"5f00::1", "for segment routing"}, {"64:ff9b:1::1", "a local translation prefix"},
		{"64:ff9b:1::808:808", "a local translation prefix"}, // where the IPv4 address is, only its owner knows
		{"::127.0.0.1", "not a global unicast address"}, {"::8.8.8.8", "not a global unicast address"},
		{"::ffff:0:127.0.0.1", "not a global unicast address"}, {"4000::1", "not a global unicast address"},
		{"::ffff:127.0.0.1", "loopback"}, {"::ffff:169.254.169.254", "a metadata service"}, {"::ffff:10.1.2.3", "private"},
		{"64:ff9b::7f00:1", "loopback"}, {"64:ff9b::a9fe:a9fe", "a metadata service"}, {"64:ff9b::10.0.0.1", "private"},
		{"2002:7f00:1::1", "loopback"}, {"2002:a00:1::", "private"}, {"2002:a9fe:a9fe::1", "a metadata service"},
	}
	for _, tc := range cases {
		t.Run(tc.addr, func(t *testing.T) {
			err := DestinationPolicy{}.Check(netip.MustParseAddr(tc.addr))
			if !errors.Is(err, ErrDestinationRefused) || !strings.Contains(err.Error(), tc.reason) {
				t.Fatalf("got %v, want a refusal: %s", err, tc.reason)
			}
		})
	}
	if err := (DestinationPolicy{}).Check(netip.Addr{}); !errors.Is(err, ErrDestinationRefused) {
		t.Fatalf("no address: %v", err)
	}
}

func TestPolicyAllows(t *testing.T) {
	cases := []struct {
		addr   string
		allow  []netip.Prefix
		want   bool
		reason string
	}{
		{"8.8.8.8", nil, true, "public"},
		{"100.63.255.255", nil, true, "right before carrier-grade NAT"},
		{"172.32.0.0", nil, true, "right behind private"},
		{"2606:4700::1111", nil, true, "public"},
		{"2001:4860:4860::8888", nil, true, "public, behind the protocol assignments"},
		{"::ffff:8.8.8.8", nil, true, "judged as IPv4"},
		{"64:ff9b::808:808", nil, true, "a public address through NAT64"},
		{"2002:808:808::1", nil, true, "a public address through 6to4"},
		{"10.1.2.3", prefixes("10.0.0.0/8"), true, "exception"},
		{"11.1.2.3", prefixes("10.0.0.0/8"), true, "public stays public beside an exception"},
		{"192.168.1.1", prefixes("10.0.0.0/8"), false, "another range"},
		{"::ffff:10.1.2.3", prefixes("10.0.0.0/8"), true, "the exception covers the mapped notation"},
		{"10.1.2.3", prefixes("::ffff:10.0.0.0/104"), true, "an exception in mapped notation"},
		{"64:ff9b::a01:203", prefixes("10.0.0.0/8"), true, "the exception covers the embedded address"},
		{"64:ff9b::a01:203", prefixes("64:ff9b::/96"), true, "an exception for the translator itself"},
		{"fe80::1%eth0", prefixes("fe80::/10"), true, "a zone does not matter"},
		{"127.0.0.1", prefixes("::/0"), false, "an IPv6 exception does not cover IPv4"},
	}
	for _, tc := range cases {
		t.Run(tc.addr, func(t *testing.T) {
			err := DestinationPolicy{Allow: tc.allow}.Check(netip.MustParseAddr(tc.addr))
			if (err == nil) != tc.want {
				t.Fatalf("%s: got %v", tc.reason, err)
			}
		})
	}
	if err := (DestinationPolicy{Allow: make([]netip.Prefix, 1)}).Validate(); err == nil {
		t.Fatal("an invalid exception was accepted")
	}
}

func TestDialerJudgesTheAddressThatANameLeadsTo(t *testing.T) {
	l := listen(t)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, host := range []string{"localhost", "127.0.0.1", "::ffff:127.0.0.1", "0.0.0.0"} {
		dial := NewDialer(DestinationPolicy{}, netip.Addr{}, patience)
		c, err := dial(context.Background(), "tcp", net.JoinHostPort(host, port))
		if !errors.Is(err, ErrDestinationRefused) {
			t.Errorf("%s: got %v, %v", host, c, err)
		}
	}
	dial := NewDialer(loopbackAllowed(), netip.Addr{}, patience)
	c, err := dial(context.Background(), "tcp", net.JoinHostPort("localhost", port))
	must(t, err)
	must(t, c.Close())
}

func TestDialerLeavesFromTheExitAddress(t *testing.T) {
	l := listen(t)
	for _, exit := range []string{"127.0.0.2", "::ffff:127.0.0.3"} {
		dial := NewDialer(loopbackAllowed(), netip.MustParseAddr(exit), patience)
		c, err := dial(context.Background(), "tcp", l.Addr().String())
		if err != nil {
			t.Skipf("no second loopback address here: %v", err)
		}
		if got := accept(t, l).RemoteAddr().(*net.TCPAddr).AddrPort().Addr(); got.Unmap() != netip.MustParseAddr(exit).Unmap() {
			t.Errorf("left from %v, want %s", got, exit)
		}
		must(t, c.Close())
	}
	dial := NewDialer(loopbackAllowed(), netip.MustParseAddr("::1"), patience)
	if c, err := dial(context.Background(), "tcp", l.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("an IPv6 exit reached an IPv4 destination")
	}
}
