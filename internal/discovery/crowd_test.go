package discovery

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// crowdAddr and crowdText are the environment of a test binary that is a crowd: where it connects to and what each of
// its connections says.
const (
	crowdAddr = "DISCOVERY_TEST_CROWD_ADDR"
	crowdText = "DISCOVERY_TEST_CROWD_TEXT"
	crowdSize = 96
)

// crowd holds as many connections as it can until standard input ends, opens those anew that the server closes, and says
// how many that were. Once it has been cut off as often as there are connections, it says that it is there.
func crowd(addr string) {
	var ended atomic.Int64
	var there sync.Once
	for range crowdSize {
		go func() {
			for {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					continue
				}
				if _, err = io.WriteString(conn, os.Getenv(crowdText)); err == nil {
					_, _ = io.Copy(io.Discard, conn)
				}
				conn.Close()
				if ended.Add(1) == crowdSize {
					there.Do(func() { fmt.Println("there") })
				}
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Println(ended.Load())
}

// gather starts a crowd in a process of its own. disperse ends it and returns how many connections it lost.
func gather(t *testing.T, f *fixture, text string) (disperse func() int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crowdAddr+"="+f.addr, crowdText+"="+text)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); err != nil || line != "there\n" {
		t.Fatalf("the crowd says %q, %v", line, err)
	}
	return func() (lost int) {
		in.Close()
		if _, err := fmt.Fscan(r, &lost); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		return lost
	}
}

// A third of a crowd of another process has a place at one time; clients with a token get through all the same.
func TestACrowdKeepsNobodyOut(t *testing.T) {
	for name, text := range map[string]string{
		"idle":         "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
		"half headers": "POST /v1/leases HTTP/1.1\r\nHost:",
		"half a body":  strings.Replace(post(`{}`), "Content-Length: 2", "Content-Length: 50", 1),
		"refused":      unauthenticated(),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(o *Options) {
				// Idle connections leave only where others need their places.
				o.MaxConnections, o.ReadHeaderTimeout, o.ReadTimeout = crowdSize/3, 50*time.Millisecond, 100*time.Millisecond
				o.IdleTimeout = time.Minute
			})
			f.put("a")
			disperse := gather(t, f, text)
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
			if lost := disperse(); lost < crowdSize {
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
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
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
