package session

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/digitalocean/go-libvirt/socket"
)

const (
	// minFrame is a packet's length and header, maxFrame what libvirt's own clients accept (VIR_NET_MESSAGE_MAX, 32 MiB) with
	// room for both.
	minFrame = 28
	maxFrame = 32<<20 + 64

	programRemote = 0x20008086
	// procedureUpload is REMOTE_PROC_STORAGE_VOL_UPLOAD, the one call used that goes with a stream.
	procedureUpload = 208
	procedureOpen   = 1 // REMOTE_PROC_CONNECT_OPEN, the last one of a library's opening
)

// header is what a packet begins with.
type header struct {
	length, program, procedure, kind uint32
	serial                           int32
	status                           uint32
}

func parseHeader(b *[minFrame]byte) header {
	n := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	return header{n(0), n(1), n(3), n(4), int32(n(5)), n(6)} //nolint:gosec // a serial is signed
}

// framed is a connection that ends when the other side sends something that cannot be a packet: the client library would take
// any length for true and reserve memory for it. Packets that the library does not wait for it leaves out.
type framed struct {
	net.Conn
	from  *bufio.Reader
	ended func(error)
	calls calls
	// opened is closed when the library has opened, or given up. Until then it does not learn that the connection has ended after
	// the last answer to its opening: it would set the same field from two goroutines (ConnectToURI, waitAndDisconnect).
	opened chan struct{}
	once   sync.Once

	// One goroutine reads. in is the present packet's header as far as it was not handed out yet, left the rest of its length.
	in   []byte
	left int
	bad  error
	last bool // of the answers to the opening was the present one
	buf  [minFrame]byte

	// The library writes one packet at a time. head is the header as far as it has come, rest what is missing of the packet.
	head []byte
	rest int
}

func newFramed(c net.Conn, ended func(error)) *framed {
	return &framed{Conn: c, from: bufio.NewReader(c), ended: ended, opened: make(chan struct{})}
}

func (f *framed) proceed() { f.once.Do(func() { close(f.opened) }) }

func (f *framed) Close() error {
	f.proceed()
	return f.Conn.Close()
}

func (f *framed) Read(b []byte) (int, error) {
	if f.bad != nil {
		return 0, f.bad
	}
	n, err := f.read(b)
	if err != nil {
		// The library tries again what it takes for temporary.
		f.bad = fmt.Errorf("reading: %w", err)
		f.ended(f.bad)
	}
	return n, f.bad
}

func (f *framed) read(b []byte) (int, error) {
	for len(f.in) == 0 && f.left == 0 {
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	if len(f.in) > 0 {
		n := copy(b, f.in)
		f.in = f.in[n:]
		return n, nil
	}
	n, err := f.from.Read(b[:min(len(b), f.left)])
	f.left -= n
	return n, err
}

// next reads a header, and all of the packet if nobody waits for that.
func (f *framed) next() error {
	if f.last {
		<-f.opened
		f.last = false
	}
	if _, err := io.ReadFull(f.from, f.buf[:4]); err != nil {
		return err
	}
	if length := binary.BigEndian.Uint32(f.buf[:]); length < minFrame || length > maxFrame {
		return fmt.Errorf("a packet of %d bytes: want %d to %d; this is not libvirt", length, minFrame, maxFrame)
	}
	if _, err := io.ReadFull(f.from, f.buf[4:]); err != nil {
		return err
	}
	h := parseHeader(&f.buf)
	if f.calls.awaited(h) {
		f.in, f.left, f.last = f.buf[:], int(h.length)-minFrame, h.procedure == procedureOpen
		return nil
	}
	_, err := f.from.Discard(int(h.length) - minFrame)
	return err
}

// Write notes which calls go out. It may block for as long as the other side takes nothing.
func (f *framed) Write(b []byte) (int, error) {
	for p := b; len(p) > 0; {
		if f.rest > 0 {
			n := min(f.rest, len(p))
			p, f.rest = p[n:], f.rest-n
			continue
		}
		n := min(minFrame-len(f.head), len(p))
		f.head = append(f.head, p[:n]...)
		p = p[n:]
		if len(f.head) == minFrame {
			h := parseHeader((*[minFrame]byte)(f.head))
			f.calls.sent(h)
			f.head, f.rest = f.head[:0], int(h.length)-minFrame
		}
	}
	n, err := f.Conn.Write(b)
	if err != nil {
		// Whoever reads may not notice.
		f.ended(fmt.Errorf("writing: %w", err))
	}
	return n, err
}

// calls are those that the client library waits for, with what comes next. The library keeps a lock while it hands a packet to
// who has called, for good if nobody takes it (digitalocean/go-libvirt, callback in rpc.go), so it must not get more packets
// of a serial than it takes: one, and another one when a stream has begun. Neither must it get one that is empty, which it
// would take for the end of the stream: libvirtd sends that when the process behind a stream dies, before it says that the
// stream has failed (daemonStreamEvent in its remote_daemon_stream.c).
type calls struct {
	mu   sync.Mutex
	open map[int32]progress
}

type progress int

const (
	called progress = iota
	calledToUpload
	uploading
)

func (c *calls) sent(h header) {
	if h.kind != socket.Call {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[int32]progress{}
	}
	c.open[h.serial] = called
	if h.procedure == procedureUpload {
		c.open[h.serial] = calledToUpload
	}
}

// awaited reports whether the library waits for a packet, and takes note of it.
func (c *calls) awaited(h header) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, ok := c.open[h.serial]
	switch {
	case !ok || h.program != programRemote:
		return false
	case h.kind == socket.Reply && now == calledToUpload && h.status == socket.StatusOK:
		c.open[h.serial] = uploading
		return true
	case h.kind == socket.Reply && now != uploading, h.kind == socket.Stream && now == uploading && h.status != socket.StatusContinue:
		delete(c.open, h.serial)
		return true
	}
	return false
}
