package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
)

// Serve answers on l, which it closes when ctx ends, until then. Each connection is served on its own, its requests in
// order. It returns nil when ctx ended, otherwise why nothing can be accepted any more.
func Serve(ctx context.Context, l net.Listener, components map[string]Component) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go serveConn(ctx, conn, components)
	}
}

func serveConn(ctx context.Context, conn net.Conn, components map[string]Component) {
	defer conn.Close() //nolint:errcheck // every answer is written by then
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 0, maxLine), maxLine)
	for lines.Scan() {
		if _, err := fmt.Fprintln(conn, serveLine(ctx, lines.Text(), components)); err != nil {
			return
		}
	}
}
