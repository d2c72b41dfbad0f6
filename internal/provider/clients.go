package provider

import (
	"errors"
	"fmt"
	"net/netip"
)

// Networks of clients that are wider than these are no restriction: 2000::/3 is all of the internet, and so are two halves of
// 0.0.0.0/0.
const widestV4, widestV6 = 8, 16

// CheckClients judges the network of those who may use a proxy. One that restricts nobody is an error, for it would make an
// open proxy; so is one that is not written as networks are. Its text says what is wrong and what is wanted.
func CheckClients(network netip.Prefix) error {
	widest := widestV6
	if network.Addr().Is4() {
		widest = widestV4
	}
	switch {
	case !network.IsValid():
		return errors.New("it is empty: want a network such as 192.0.2.0/24")
	case network.Addr().Is4In6():
		return fmt.Errorf("%s: want an IPv4 network as such", network)
	case network.Bits() < widest:
		return fmt.Errorf("%s admits everybody, or nearly so: want /%d at the widest", network, widest)
	case network != network.Masked():
		return fmt.Errorf("%s has host bits set: want %s", network, network.Masked())
	}
	return nil
}
