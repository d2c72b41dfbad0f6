package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"

	"github.com/egress-proxies/egress-proxies-operator/internal/forwardproxy"
)

// fate is what becomes of a target's proxy when the lights go out.
type fate int

const (
	lives fate = iota
	// falls silent: it accepts connections and says nothing.
	fallsSilent
	// goes deaf: its queue of connections is full, so that the kernel drops every further SYN.
	goesDeaf
)

// fateOf lets three of ten targets die, half of them in either way.
func fateOf(i int) fate {
	switch i % 20 {
	case 3, 9, 15:
		return fallsSilent
	case 0, 6, 12:
		return goesDeaf
	}
	return lives
}

// addressOf returns the loopback address of the i-th target's proxy.
func addressOf(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(1 + i>>16), byte(i >> 8), byte(i)})
}

// targetAt is the inverse of addressOf.
func targetAt(a net.Addr) (int, bool) {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil || !ap.Addr().Unmap().Is4() {
		return 0, false
	}
	b := ap.Addr().Unmap().As4()
	return int(b[1]-1)<<16 | int(b[2])<<8 | int(b[3]), b[1] > 0
}

// ports are where the proxies listen, all those that may go deaf on one of their own.
type ports struct{ Proxy, Deaf int32 }

// serveProxies is the process of the proxies. The first command turns the lights out.
func serveProxies(ctx context.Context, origin string) error {
	var dialer net.Dialer
	server, err := forwardproxy.New(forwardproxy.Config{
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, origin)
		},
		MaxConnections: 1 << 16,
	})
	if err != nil {
		return err
	}
	dark := new(atomic.Bool)
	proxy, err := listenTCP(ctx)
	if err != nil {
		return err
	}
	deaf, err := listenTCP(ctx)
	if err != nil {
		return err
	}
	go func() { _ = server.Serve(&silence{Listener: proxy, dark: dark}) }()
	go func() { _ = server.Serve(&deafness{Listener: deaf, dark: dark}) }()
	return obey(ports{Proxy: portOf(proxy), Deaf: portOf(deaf)}, func(nothing) (nothing, error) {
		dark.Store(true)
		return nothing{}, shrink(deaf)
	})
}

func listenTCP(ctx context.Context) (*net.TCPListener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", "0.0.0.0:0")
	if err != nil {
		return nil, err
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("listening gave a %T", l)
	}
	return tcp, nil
}

func portOf(l net.Listener) int32 {
	tcp, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0
	}
	return int32(tcp.Port)
}

// shrink leaves the listener a queue of one connection. Linux lets that be changed later.
func shrink(l *net.TCPListener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = raw.Control(func(fd uintptr) { failure = syscall.Listen(int(fd), 0) })
	return errors.Join(err, failure)
}

// silence keeps connections to proxies that fell silent to itself.
type silence struct {
	net.Listener
	dark *atomic.Bool
}

func (l *silence) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || !l.dark.Load() {
			return c, err
		}
		if i, ok := targetAt(c.LocalAddr()); !ok || fateOf(i) != fallsSilent {
			return c, nil
		}
		go swallow(c)
	}
}

// deafness accepts nothing any more once it is dark.
type deafness struct {
	net.Listener
	dark *atomic.Bool
}

func (l *deafness) Accept() (net.Conn, error) {
	for !l.dark.Load() {
		c, err := l.Listener.Accept()
		if err != nil || !l.dark.Load() {
			return c, err
		}
		// It came in while this waited.
		go swallow(c)
	}
	select {}
}

// swallow reads until the client gives up.
func swallow(c net.Conn) {
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
}
