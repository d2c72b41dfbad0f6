package session

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"reflect"
	"sync"

	"github.com/digitalocean/go-libvirt/socket"
)

const (
	// minFrame is a packet's length and header. maxFrame is what a list of as many volumes as libvirt lists at all (16,384) may
	// take; libvirt's own clients accept four times as much (VIR_NET_MESSAGE_MAX), which is more memory than there is.
	minFrame = 28
	maxFrame = 8<<20 + 64

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

	// One goroutine reads. in is the present packet as far as it was not handed out yet.
	in   []byte
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
	for len(f.in) == 0 {
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, f.in)
	f.in = f.in[n:]
	return n, nil
}

// next reads a packet, and throws it away if nobody waits for it.
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
	procedure, awaited := f.calls.awaited(h)
	if !awaited {
		_, err := f.from.Discard(int(h.length) - minFrame)
		return err
	}
	packet := bytes.NewBuffer(f.buf[:])
	// As much as comes, whatever was claimed.
	if n, err := io.CopyN(packet, f.from, int64(h.length)-minFrame); err != nil {
		return fmt.Errorf("a packet of %d bytes ends after %d: %w", h.length, n+minFrame, err)
	}
	f.in, f.last = packet.Bytes(), procedure == procedureOpen
	return judge(h, procedure, f.in[minFrame:])
}

// judge checks that the library can read an answer without harm.
func judge(h header, procedure uint32, payload []byte) error {
	if h.kind != socket.Reply && h.status != socket.StatusError {
		return nil
	}
	shape, read := answers[procedure]
	if h.status == socket.StatusError {
		shape, read = reflect.TypeFor[refusal](), true
	}
	if !read {
		return nil
	}
	return fits(shape, payload)
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
	open map[int32]pending
}

// pending is one of them.
type pending struct {
	procedure uint32 // as it was called: what the other side says of its answers may be anything
	progress  progress
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
		c.open = map[int32]pending{}
	}
	now := called
	if h.procedure == procedureUpload {
		now = calledToUpload
	}
	c.open[h.serial] = pending{h.procedure, now}
}

// awaited reports whether the library waits for a packet, to which call, and takes note of it.
func (c *calls) awaited(h header) (procedure uint32, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to, ok := c.open[h.serial]
	now := to.progress
	switch {
	case !ok || h.program != programRemote:
		return 0, false
	case h.kind == socket.Reply && now == calledToUpload && h.status == socket.StatusOK:
		c.open[h.serial] = pending{to.procedure, uploading}
		return to.procedure, true
	case h.kind == socket.Reply && now != uploading, h.kind == socket.Stream && now == uploading && h.status != socket.StatusContinue:
		delete(c.open, h.serial)
		return to.procedure, true
	}
	return 0, false
}
