package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// drip is the pause of a bad client between two bytes, and from one connection to the next at least.
	drip = time.Second
	// patience is how long a bad client leaves its answer unread before it looks whether it was cut off.
	patience = writeLimit + 500*time.Millisecond
)

// badKinds are what bad clients do; each does one. Of the first there are few: a list is work, however it is read.
var badKinds = []struct {
	name string
	do   func(context.Context, *net.TCPConn) (cut bool)
}{
	{"unread answers", unread},
	{"slow headers", func(ctx context.Context, c *net.TCPConn) bool { return dribble(ctx, c, 0) }},
	{"slow bodies", func(ctx context.Context, c *net.TCPConn) bool {
		return dribble(ctx, c, len(acquireLarge)-len(largeBody))
	}},
	{"half-closed", func(_ context.Context, c *net.TCPConn) bool {
		return write(c, acquireSmall) == nil && c.CloseWrite() == nil && ended(c)
	}},
	{"idle", func(_ context.Context, c *net.TCPConn) bool { return write(c, healthz) == nil && ended(c) }},
}

var healthz = request(http.MethodGet, "/healthz", "")

// siege is what the orchestrator tells the bad clients: Conns of them connect to Addr; none let go.
type siege struct {
	Addr  string
	Conns int
}

// toll is the answer, once all are connected or have let go: how often the server has cut off each kind since the last
// siege began, and how many had a connection when it ended.
type toll struct {
	Cut  map[string]int
	Held int
}

// besiege is the process of the bad clients. It ends with its standard input.
func besiege(ctx context.Context) error {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	leave := func() toll { return toll{} }
	for {
		var s siege
		if err := in.Decode(&s); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		t := leave()
		leave = lay(ctx, s)
		if err := out.Encode(t); err != nil {
			return err
		}
	}
}

// lay returns when every client is connected. They come one after the other, and so does what they do later.
func lay(ctx context.Context, s siege) (leave func() toll) {
	ctx, cancel := context.WithCancel(ctx)
	var mu sync.Mutex // guards t
	t := toll{Cut: map[string]int{}}
	var connected, clients sync.WaitGroup
	for i := range s.Conns {
		kind := badKinds[0]
		if i%25 > 0 {
			kind = badKinds[1+i%(len(badKinds)-1)]
		}
		connected.Add(1)
		clients.Go(func() {
			first := sync.OnceFunc(connected.Done)
			defer first()
			select {
			case <-ctx.Done():
			case <-time.After(drip * time.Duration(i) / time.Duration(s.Conns)):
			}
			for ctx.Err() == nil {
				again := time.After(drip)
				conn, err := badDialer.DialContext(ctx, "tcp", s.Addr)
				if tcp, ok := conn.(*net.TCPConn); err == nil && ok {
					mu.Lock()
					t.Held++
					mu.Unlock()
					stop := context.AfterFunc(ctx, func() { _ = tcp.SetDeadline(time.Now()) })
					first()
					cut := kind.do(ctx, tcp)
					stop()
					mu.Lock()
					if ctx.Err() == nil {
						t.Held--
						if cut {
							t.Cut[kind.name]++
						}
					}
					mu.Unlock()
					_ = tcp.Close()
				}
				select {
				case <-ctx.Done():
				case <-again:
				}
			}
		})
	}
	connected.Wait()
	return func() toll {
		cancel()
		clients.Wait()
		return t
	}
}

// badDialer makes connections for which the kernel keeps so little that a list does not fit.
var badDialer = net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
	var failure error
	err := c.Control(func(fd uintptr) {
		failure = errors.Join(
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 536),
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096),
		)
	})
	return errors.Join(err, failure)
}}

func write(c *net.TCPConn, b []byte) error {
	_, err := c.Write(b)
	return err
}

// ended waits until the server ends the connection.
func ended(c *net.TCPConn) bool {
	_, err := io.Copy(io.Discard, c)
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// dribble sends a request that never becomes complete, from its byte at on one by one.
func dribble(ctx context.Context, c *net.TCPConn, at int) bool {
	if write(c, acquireLarge[:at]) != nil {
		return true
	}
	gone := make(chan bool, 1)
	go func() { gone <- ended(c) }()
	// Not all at one moment.
	pause := time.NewTimer(time.Duration(rand.Int64N(int64(drip))))
	defer pause.Stop()
	for ; ; at++ {
		select {
		case cut := <-gone:
			return cut
		case <-ctx.Done():
			<-gone
			return false
		case <-pause.C:
		}
		if at < len(acquireLarge)-1 && write(c, acquireLarge[at:at+1]) != nil {
			return <-gone
		}
		pause.Reset(drip)
	}
}

// unread asks for a list and looks at the answer only when the server must have given up.
func unread(ctx context.Context, c *net.TCPConn) bool {
	if write(c, listPage) != nil {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(patience):
	}
	var answer bytes.Buffer
	_, err := io.CopyN(&answer, c, unreadBytes)
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}
