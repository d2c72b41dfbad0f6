package discovery

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/connlimit"
)

// shortest is a header with n lines more than it needs.
func shortest(n int) []string { return strings.Split(strings.Repeat("a:b\n", n)[:4*n-1], "\n") }

// How many lines a header may have is told apart from how large it is by who sends it.
func TestHeadersOfManyLines(t *testing.T) {
	f := newFixture(t)
	f.put("a")
	const health = "GET /healthz HTTP/1.1\r\nHost: x\r\n"
	many := strings.Join(shortest(connlimit.MaxUnprovenLines), "\r\n") + "\r\n\r\n"
	long := post(strings.Repeat(" \n", 15_000) + "{}")
	_, body, _ := strings.Cut(long, "\r\n\r\n")
	for name, tc := range map[string]struct {
		first, send string
		want        int // 0 for cut off
	}{
		"as many as may be":           {"", unauthenticated(shortest(connlimit.MaxUnprovenLines - 3)...), http.StatusUnauthorized},
		"one more":                    {"", unauthenticated(shortest(connlimit.MaxUnprovenLines - 2)...), 0},
		"one more, with a token":      {"", request("GET", "/v1/proxies", shortest(connlimit.MaxUnprovenLines-3)...), 0},
		"many in the body":            {"", long, http.StatusCreated},
		"many in the next body":       {health + "\r\n" + strings.TrimSuffix(long, body), body, http.StatusCreated},
		"many after a few":            {health + "\r\n", health + many, 0},
		"many behind a token's":       {request("GET", "/v1/proxies"), health + many, http.StatusOK},
		"many, begun in the same one": {health + "\r\n" + health, many, 0},
	} {
		t.Run(name, func(t *testing.T) {
			conn, r := dial(t, f)
			if tc.first != "" {
				write(t, conn, tc.first)
				if got := readStatus(t, r); got != http.StatusOK {
					t.Fatal(got)
				}
			}
			_, _ = io.WriteString(conn, tc.send) // it may be cut off on the way
			resp, err := http.ReadResponse(r, nil)
			switch {
			case tc.want == 0 && (err == nil || errors.Is(err, os.ErrDeadlineExceeded)):
				t.Errorf("%v, %v, want it cut off", resp, err)
			case tc.want > 0 && (err != nil || resp.StatusCode != tc.want):
				t.Errorf("%v, %v, want %d", resp, err, tc.want)
			}
		})
	}
}

// memory is what live objects and stacks take.
func memory() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// settled waits until memory stays as it is.
func settled() int {
	before := memory()
	for same := 0; same < 5; same++ {
		now := memory()
		if d := now - before; d > now/100 || d < -now/100 {
			same = 0
		}
		before = now
	}
	return before
}

// As many connections as there are places for, none with a token, each with the header that costs the most.
func TestUnprovenConnectionsCostLittle(t *testing.T) {
	const most = 24 << 20 // and as much again in what is not collected yet
	for name, line := range map[string]func(i int) string{
		"short":    func(int) string { return "a:b" },
		"distinct": func(i int) string { return fmt.Sprintf("%x:", i) },
		"long": func(i int) string {
			return fmt.Sprintf("%x:%s", i, strings.Repeat("x", maxHeaderBytes/connlimit.MaxUnprovenLines-7))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			var b strings.Builder
			b.WriteString("GET / HTTP/1.1\r\n")
			for i := range connlimit.MaxUnprovenLines - 1 {
				b.WriteString(line(i) + "\n")
			}
			text := b.String()[:b.Len()-1]
			before := memory()
			conns := make([]net.Conn, connlimit.MaxUnproven)
			for i := range conns {
				conns[i], _ = dial(t, f)
				write(t, conns[i], text)
			}
			cost := settled() - before
			t.Logf("%d connections with headers of %d bytes cost %d KiB", len(conns), len(text), cost>>10)
			if cost > most {
				t.Errorf("%d connections cost %d MiB", len(conns), cost>>20)
			}
			for _, conn := range conns { // all were still there, and one line more was one too many
				write(t, conn, "\n\n")
				if !cut(conn) {
					t.Fatal("not cut off")
				}
			}
		})
	}
}

// cut reports whether the server has closed the connection.
func cut(client net.Conn) bool {
	_ = client.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, err := client.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}
