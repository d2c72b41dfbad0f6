package sshtest

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Options shape a server.
type Options struct {
	// HostKeys are what the server shows; one made for the test, of kind ed25519, when empty.
	HostKeys []ssh.Signer
	// User is who may log in; "libvirt" when empty.
	User string
	// Authorized are the keys that the user may log in with.
	Authorized []ssh.PublicKey
	// UserCA, where set, signs certificates that the user may log in with.
	UserCA ssh.PublicKey
	// UserAlgorithms are the algorithms that users may sign with; the library's choice when empty.
	UserAlgorithms []string
	// Socket is where channels lead to, whatever the client asks for; to what it asks for when empty.
	Socket string
	// Banner is shown before authentication.
	Banner string
}

// DefaultUser is who may log in when Options do not say.
const DefaultUser = "libvirt"

// Server is an SSH server. It ends with the test. It is safe for concurrent use.
type Server struct {
	listener net.Listener
	work     sync.WaitGroup

	mu     sync.Mutex
	opts   Options
	fault  Fault
	wires  map[*wire]bool
	asked  []string
	users  []string
	closed bool
}

// Start starts a server on a free port of 127.0.0.1.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if len(opts.HostKeys) == 0 {
		opts.HostKeys = []ssh.Signer{NewKey(t, Ed25519)}
	}
	if opts.User == "" {
		opts.User = DefaultUser
	}
	s := &Server{listener: listener, opts: opts, wires: map[*wire]bool{}}
	s.work.Go(s.accept)
	t.Cleanup(s.Close)
	return s
}

// Close ends the server and all of its connections, and waits for that. It may be called more than once.
func (s *Server) Close() {
	_ = s.listener.Close()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.CutAll()
	s.work.Wait()
}

// CutAll closes every TCP connection.
func (s *Server) CutAll() { s.each(func(w *wire) { _ = w.Close() }) }

// SilenceAll lets every connection fall silent, as if the host had lost its power.
func (s *Server) SilenceAll() { s.each((*wire).silence) }

func (s *Server) each(do func(*wire)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.wires {
		do(w)
	}
}

// Address returns "127.0.0.1:port".
func (s *Server) Address() string { return s.listener.Addr().String() }

// HostKey returns the first of the server's keys.
func (s *Server) HostKey() ssh.PublicKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opts.HostKeys[0].PublicKey()
}

// Change changes the options for the connections to come.
func (s *Server) Change(change func(*Options)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.opts)
}

// SetFault sets what goes wrong with the connections to come.
func (s *Server) SetFault(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Asked returns the sockets that clients have asked for.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// Users returns the names that clients have tried to log in by.
func (s *Server) Users() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.users)
}

// Open returns how many connections there are. One that is silent counts until the server closes.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.wires)
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		w := newWire(c)
		s.mu.Lock()
		closed, opts, fault := s.closed, s.opts, s.fault
		s.wires[w] = true
		s.mu.Unlock()
		if closed {
			_ = w.Close()
		}
		s.work.Go(func() {
			s.serve(w, opts, fault)
			_ = w.Close()
			s.mu.Lock()
			delete(s.wires, w)
			s.mu.Unlock()
		})
	}
}

// serve returns when the connection has ended.
func (s *Server) serve(w *wire, opts Options, fault Fault) {
	fault.strike(Accept, w)
	conn, channels, requests, err := ssh.NewServerConn(w, s.config(w, opts, fault))
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	fault.strike(Auth, w)
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { ssh.DiscardRequests(requests) })
	for c := range channels {
		work.Go(func() { s.forward(w, c, opts, fault) })
	}
}

var errNotAdmitted = errors.New("not admitted")

func (s *Server) config(w *wire, opts Options, fault Fault) *ssh.ServerConfig {
	certs := ssh.CertChecker{
		IsUserAuthority: func(key ssh.PublicKey) bool { return opts.UserCA != nil && same(key, opts.UserCA) },
		UserKeyFallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if c.User() == opts.User && slices.ContainsFunc(opts.Authorized, func(k ssh.PublicKey) bool { return same(k, key) }) {
				return nil, nil
			}
			return nil, errNotAdmitted
		},
	}
	config := &ssh.ServerConfig{
		PublicKeyCallback:       certs.Authenticate,
		PublicKeyAuthAlgorithms: opts.UserAlgorithms,
		// The first attempt of every client is that without any method, right after the key exchange.
		AuthLogCallback: func(c ssh.ConnMetadata, method string, _ error) {
			if method == "none" {
				s.mu.Lock()
				s.users = append(s.users, c.User())
				s.mu.Unlock()
				fault.strike(KeyExchange, w)
			}
		},
	}
	if opts.Banner != "" {
		config.BannerCallback = func(ssh.ConnMetadata) string { return opts.Banner }
	}
	for _, key := range opts.HostKeys {
		config.AddHostKey(key)
	}
	return config
}

func same(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }
