package gcpemulator

import (
	"net/netip"
	"slices"
)

// Where addresses come from if nobody says so: the subnets of auto mode networks, and a range set aside for benchmarks.
var (
	insides  = netip.MustParseAddr("10.128.0.1").As4()
	outsides = netip.MustParseAddr("198.18.0.0").As4()
)

func offset(start [4]byte, n uint64) string {
	v := uint64(start[0])<<24 | uint64(start[1])<<16 | uint64(start[2])<<8 | uint64(start[3])
	v += n
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}).String()
}

// inside returns an internal address that no other instance has.
func (e *Emulator) inside() string {
	e.seq++
	return offset(insides, e.seq)
}

// outside takes an external address out of the pool, ok false if there is none left.
func (e *Emulator) outside() (address string, ok bool) {
	if e.opts.Addresses == nil {
		e.seq++
		return offset(outsides, e.seq%(1<<17)), true
	}
	if len(e.free) == 0 {
		return "", false
	}
	address = e.free[0]
	e.free = slices.Delete(e.free, 0, 1)
	return address, true
}

// release puts an external address back. It is the last to be given out again.
func (e *Emulator) release(address string) {
	if address != "" && slices.Contains(e.opts.Addresses, address) && !slices.Contains(e.free, address) {
		e.free = append(e.free, address)
	}
}
