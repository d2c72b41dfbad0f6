package discovery

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Of a crowd of another process, not everybody has a place at one time; clients with a token get through all the same.
func TestACrowdKeepsNobodyOut(t *testing.T) {
	const size = 96
	for name, text := range map[string]string{
		"idle":         "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
		"half headers": "POST /v1/leases HTTP/1.1\r\nHost:",
		"half a body":  strings.Replace(post(`{}`), "Content-Length: 2", "Content-Length: 50", 1),
		"refused":      unauthenticated(),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(o *Options) {
				// Idle connections leave only where others need their places.
				o.MaxConnections, o.ReadHeaderTimeout, o.ReadTimeout = size, 50*time.Millisecond, 100*time.Millisecond
				o.IdleTimeout = time.Minute
			})
			f.put("a")
			disperse := gather(t, f, "stubborn", size, text)
			var good sync.WaitGroup
			for range 4 {
				good.Go(func() {
					for range 5 {
						if err := leaseAlone(f); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			good.Wait()
			if lost := disperse(); lost < size {
				t.Errorf("the crowd lost %d connections", lost)
			}
			if n := f.ledger.Live(); n != 20 {
				t.Errorf("%d live leases, want those of the good clients", n)
			}
		})
	}
}

// leaseAlone gets a lease on a connection of its own.
func leaseAlone(f *fixture) error {
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, post(`{}`)); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
