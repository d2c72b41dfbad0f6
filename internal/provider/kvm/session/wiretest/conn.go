package wiretest

import (
	"io"
	"net"
	"reflect"
	"slices"
	"sync"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket"
)

// Conn is a client's connection.
type Conn struct {
	net.Conn
	server *Server
	done   chan struct{} // closed by Cut
	once   sync.Once
	work   sync.WaitGroup

	sending sync.Mutex
	mu      sync.Mutex
	mute    bool
	uploads map[int32]*io.PipeWriter
}

// Cut closes it.
func (c *Conn) Cut() {
	c.once.Do(func() {
		close(c.done)
		_ = c.Conn.Close()
	})
}

// Silence lets the daemon take no notice any more of what comes, and write nothing more, until the connection ends. It is for a
// fault to call, which has to return true then.
func (c *Conn) Silence() {
	c.mu.Lock()
	c.mute = true
	c.mu.Unlock()
	_, _ = io.Copy(io.Discard, c.Conn)
}

// Stop is Silence of a daemon that does not even read, until it is cut.
func (c *Conn) Stop() {
	c.mu.Lock()
	c.mute = true
	c.mu.Unlock()
	<-c.done
}

// Send writes packets, or what stands for them.
func (c *Conn) Send(raw []byte) {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.mu.Lock()
	mute := c.mute
	c.mu.Unlock()
	if !mute {
		_, _ = c.Write(raw)
	}
}

// serve returns when the connection has ended and so has all that came over it.
func (c *Conn) serve() {
	defer c.work.Wait()
	defer c.hangUp()
	for {
		p, err := readPacket(c)
		if err != nil {
			return
		}
		switch p.Type {
		case socket.Call:
			c.called(&Call{Packet: p, Name: procedures[p.Procedure], Conn: c})
		case socket.Stream:
			c.streamed(p)
		}
	}
}

func (c *Conn) hangUp() {
	c.Cut()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.uploads {
		_ = w.CloseWithError(io.ErrUnexpectedEOF)
	}
}

func (c *Conn) called(call *Call) {
	if fault := c.server.faultOf(call.Name); fault != nil && fault(call) {
		return
	}
	if call.Name == upload {
		c.upload(call)
		return
	}
	c.work.Go(func() { c.Send(c.server.do(call).Bytes()) })
}

// upload answers as soon as the daemon begins to read.
func (c *Conn) upload(call *Call) {
	r, w := io.Pipe()
	c.mu.Lock()
	c.uploads[call.Serial] = w
	c.mu.Unlock()
	c.work.Go(func() {
		var began sync.Once
		from := readerFunc(func(b []byte) (int, error) {
			began.Do(func() { c.Send(call.Answer(nil).Bytes()) })
			return r.Read(b)
		})
		method := reflect.ValueOf(c.server.api.StorageVolUpload)
		in, err := call.arguments(method.Type(), method.Type().NumIn())
		if err == nil {
			in = slices.Insert(in, 1, reflect.ValueOf(io.Reader(from)))
			err, _ = method.Call(in)[0].Interface().(error)
		}
		_ = r.CloseWithError(io.ErrClosedPipe) // what still comes is nobody's
		untouched := false
		began.Do(func() { untouched = true })
		switch {
		case untouched && err != nil:
			c.Send(call.Refuse(err).Bytes())
		case err != nil:
			c.Send(call.StreamError(err).Bytes())
		default:
			if untouched { // it had nothing to read
				c.Send(call.Answer(nil).Bytes())
			}
			c.Send(call.Stream(socket.StatusOK, nil).Bytes())
		}
	})
}

// streamed takes a part of an upload. Like the real daemon, this one reads nothing more until that part is taken.
func (c *Conn) streamed(p Packet) {
	c.mu.Lock()
	w := c.uploads[p.Serial]
	c.mu.Unlock()
	if w == nil {
		return
	}
	switch p.Status {
	case socket.StatusContinue:
		_, _ = w.Write(p.Payload)
	case socket.StatusOK:
		_ = w.Close()
	default:
		_ = w.CloseWithError(libvirt.Error{Code: uint32(libvirt.ErrRPC), Message: "stream aborted at client request"})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
