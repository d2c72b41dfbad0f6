package discovery

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The environment of a test binary that is a crowd: of which kind and size, where it connects to and what each of its
// connlimit says.
const (
	crowdKind = "DISCOVERY_TEST_CROWD_KIND"
	crowdSize = "DISCOVERY_TEST_CROWD_SIZE"
	crowdAddr = "DISCOVERY_TEST_CROWD_ADDR"
	crowdText = "DISCOVERY_TEST_CROWD_TEXT"
)

// crowds are what a crowd may do. Each says that it is there, waits until standard input ends, and says a number.
var crowds = map[string]func(addr, text string, size int){"stubborn": stubborn, "sudden": sudden, "patient": patient}

func crowd(kind string) {
	size, err := strconv.Atoi(os.Getenv(crowdSize))
	if err != nil {
		panic(err)
	}
	crowds[kind](os.Getenv(crowdAddr), os.Getenv(crowdText), size)
}

// stubborn opens those of its connections anew that the server closes. It is there once it has been cut off as often as
// there are connections, and says how often that was in all.
func stubborn(addr, text string, size int) {
	var ended atomic.Int64
	var there sync.Once
	for range size {
		go func() {
			for {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					continue
				}
				if _, err = io.WriteString(conn, text); err == nil {
					_, _ = io.Copy(io.Discard, conn)
				}
				conn.Close()
				if ended.Add(1) == int64(size) {
					there.Do(func() { fmt.Println("there") })
				}
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Println(ended.Load())
}

// sudden connects at one moment. It is there once everybody has got an answer or none, and says how many got a good one.
func sudden(addr, text string, size int) {
	var served atomic.Int64
	var all sync.WaitGroup
	for range size {
		all.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err == nil {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				_, err = io.WriteString(conn, text)
			}
			var resp *http.Response
			if err == nil {
				resp, err = http.ReadResponse(bufio.NewReader(conn), nil)
			}
			if err == nil && resp.StatusCode == http.StatusOK {
				served.Add(1)
				return
			}
			fmt.Fprintln(os.Stderr, "not served:", err, resp)
		})
	}
	all.Wait()
	fmt.Println("there")
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Println(served.Load())
}

// patient opens connections one after the other and keeps them. It says how many of them the server has closed at last.
func patient(addr, text string, size int) {
	conns := make([]net.Conn, size)
	for i := range conns {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_, _ = io.WriteString(conn, text) // it may have been cut off already
			conns[i] = conn
		} else {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	fmt.Println("there")
	_, _ = io.Copy(io.Discard, os.Stdin)
	closed := 0
	until := time.Now().Add(20 * time.Second)
	for _, conn := range conns {
		if conn == nil || conn.SetReadDeadline(until) != nil {
			continue
		}
		if _, err := io.Copy(io.Discard, conn); !os.IsTimeout(err) {
			closed++
		}
		conn.Close()
	}
	fmt.Println(closed)
}

// gather starts a crowd in a process of its own. disperse ends it and returns the number that it says.
func gather(t *testing.T, f *fixture, kind string, size int, text string) (disperse func() int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crowdKind+"="+kind, crowdSize+"="+strconv.Itoa(size), crowdAddr+"="+f.addr, crowdText+"="+text)
	cmd.Stderr = os.Stderr
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
	return func() (number int) {
		in.Close()
		if _, err := fmt.Fscan(r, &number); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		return number
	}
}
