package wiretest

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
)

// procedures are the numbers of what the daemon can be asked for. What such a call takes and returns is what the method of the
// same name does, in the same order.
var procedures = map[uint32]string{
	1: connectOpen, 4: "ConnectGetVersion", 7: "ConnectGetCapabilities", 16: "DomainGetInfo", 23: "DomainLookupByName",
	24: "DomainLookupByUUID", 46: "NetworkLookupByName", 66: authList, 84: "StoragePoolLookupByName", 87: "StoragePoolGetInfo",
	88: "StoragePoolGetXMLDesc", 93: "StorageVolCreateXML", 94: "StorageVolDelete", 95: "StorageVolLookupByName",
	98: "StorageVolGetInfo", 99: "StorageVolGetXMLDesc", 157: "ConnectGetLibVersion", 196: "DomainCreateWithFlags", 208: upload,
	212: "DomainGetState", 228: "NodeGetMemoryStats", 231: "DomainUndefineFlags", 234: "DomainDestroyFlags", 265: "DomainGetMetadata",
	273: "ConnectListAllDomains", 282: "StoragePoolListAllVolumes", 341: "NetworkGetDhcpLeases", 350: "DomainDefineXMLFlags",
	353: "DomainInterfaceAddresses", 420: "DomainAgentSetResponseTimeout",
}

const (
	authList    = "AuthList"
	connectOpen = "ConnectOpen"
	upload      = "StorageVolUpload"
)

// Server serves a daemon's calls to every connection that it is given. Each call is made on a goroutine of its own. It is safe
// for concurrent use.
type Server struct {
	api  session.API
	work sync.WaitGroup

	mu     sync.Mutex
	fault  func(*Call) bool
	conns  map[*Conn]bool
	served int
	calls  []string
	closed bool
}

// New returns a server of what api leads to. It ends with the test.
func New(t testing.TB, api session.API) *Server {
	t.Helper()
	s := &Server{api: api, conns: map[*Conn]bool{}}
	t.Cleanup(s.Close)
	return s
}

// Call is one that has come.
type Call struct {
	Packet
	Name string
	Conn *Conn
}

// SetFault lets f see every call, in the order in which they come, before it is made. What it returns is whether it has dealt
// with it; until then nothing more is read from the connection. Nil is no fault.
func (s *Server) SetFault(f func(*Call) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Dial returns a connection to the server that is in memory alone.
func (s *Server) Dial() (net.Conn, error) {
	here, there := pipe()
	s.Serve(there)
	return here, nil
}

// Listen serves a unix socket until stop is called, whose connections stay. It replaces what is at the path.
func (s *Server) Listen(t testing.TB, path string) (stop func()) {
	t.Helper()
	if path == "" || !filepath.IsAbs(path) {
		t.Fatalf("%q is no absolute path", path)
	}
	_ = os.Remove(path)
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop = func() { once.Do(func() { _ = l.Close() }) }
	t.Cleanup(stop)
	s.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.Serve(c)
		}
	})
	t.Cleanup(stop) // before Close, which waits for it
	return stop
}

// Serve serves a connection, and returns at once.
func (s *Server) Serve(c net.Conn) {
	conn := &Conn{Conn: c, server: s, done: make(chan struct{}), uploads: map[int32]*io.PipeWriter{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close()
		return
	}
	s.served++
	s.conns[conn] = true
	s.work.Go(func() {
		conn.serve()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, conn)
	})
}

// Cut closes all connections.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Cut()
	}
}

// Close cuts all connections, takes no more of them, and waits until nothing runs any more.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.Cut()
	s.work.Wait()
}

// Served is how many connections there were, Open how many there are.
func (s *Server) Served() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

// Open is how many connections there are.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Calls returns the names of all calls that have come.
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func (s *Server) faultOf(name string) func(*Call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, name)
	return s.fault
}

// do makes the call and returns the packet that answers it.
func (s *Server) do(c *Call) Packet {
	switch c.Name {
	case authList:
		return c.Answer(encode(nil, reflect.ValueOf([]int32{0})))
	case connectOpen:
		return c.Answer(nil)
	case "":
		return c.Refuse(errors.New("unknown procedure"))
	}
	method := reflect.ValueOf(s.api).MethodByName(c.Name)
	in, err := c.arguments(method.Type(), method.Type().NumIn())
	if err != nil {
		return c.Refuse(err)
	}
	out := method.Call(in)
	last := len(out) - 1
	if err, _ := out[last].Interface().(error); err != nil {
		return c.Refuse(err)
	}
	var b []byte
	for _, v := range out[:last] {
		b = encode(b, v)
	}
	return c.Answer(b)
}

func (c *Call) arguments(of reflect.Type, n int) (in []reflect.Value, err error) {
	b := c.Payload
	for i := range n {
		if of.In(i).Kind() == reflect.Interface {
			continue // the stream
		}
		v := reflect.New(of.In(i)).Elem()
		if b, err = decode(b, v); err != nil {
			return nil, err
		}
		in = append(in, v)
	}
	return in, nil
}

// Make makes a call of a fault, whose answer is lost.
func (s *Server) Make(c *Call) { s.do(c) }
