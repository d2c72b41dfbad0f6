package session

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
)

const (
	// minFrame is a packet's length and header, maxFrame what libvirt's own clients accept (VIR_NET_MESSAGE_MAX, 32 MiB) with
	// room for both.
	minFrame = 28
	maxFrame = 32<<20 + 64
)

// framed is a connection that ends when the other side sends something that cannot be a packet. The client library would
// take any length for true and reserve memory for it.
type framed struct {
	net.Conn
	ended func(error)
	once  sync.Once
	// head is the length of the next packet as far as it has come, left what is missing of the present one.
	head []byte
	left int
	bad  error
}

func (f *framed) Read(b []byte) (int, error) {
	if f.bad != nil {
		return 0, f.bad
	}
	n, err := f.Conn.Read(b)
	if bad := f.follow(b[:n]); bad != nil {
		f.bad = bad
		_ = f.Conn.Close()
		n, err = 0, bad
	}
	if err != nil {
		f.once.Do(func() { f.ended(err) })
	}
	return n, err
}

// follow keeps track of where packets begin.
func (f *framed) follow(b []byte) error {
	for len(b) > 0 {
		if f.left > 0 {
			n := min(f.left, len(b))
			b, f.left = b[n:], f.left-n
			continue
		}
		n := min(4-len(f.head), len(b))
		f.head = append(f.head, b[:n]...)
		b = b[n:]
		if len(f.head) < 4 {
			return nil
		}
		length := binary.BigEndian.Uint32(f.head)
		if length < minFrame || length > maxFrame {
			return fmt.Errorf("a packet of %d bytes: want %d to %d; this is not libvirt", length, minFrame, maxFrame)
		}
		f.head, f.left = f.head[:0], int(length)-4
	}
	return nil
}
