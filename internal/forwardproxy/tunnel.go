package forwardproxy

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// relay copies both ways until both have ended, one has failed, nothing moved
// for the idle timeout, or the server is killed. Each end of stream is passed on
// as a half-close. It returns the bytes sent to the destination and to the
// client; both connections are closed then.
func (s *Server) relay(client, upstream net.Conn, early []byte) (up, down int64) {
	closeBoth := sync.OnceFunc(func() {
		_ = client.Close()
		_ = upstream.Close()
	})
	defer closeBoth()
	defer context.AfterFunc(s.killed, closeBoth)()
	idle := watchIdle(s.cfg.Clock, s.cfg.IdleTimeout, closeBoth)
	defer idle.stop()

	var other sync.WaitGroup
	other.Go(func() {
		n, err := upstream.Write(early)
		up = int64(n)
		if err != nil {
			closeBoth()
			return
		}
		moved, ok := s.pump(upstream, client, idle)
		up += moved
		if !ok {
			closeBoth()
		}
	})
	down, ok := s.pump(client, upstream, idle)
	if !ok {
		closeBoth()
	}
	other.Wait()
	return up, down
}

// pump copies one direction and reports whether it ended in order: the source
// said so and the destination of the bytes was told.
func (s *Server) pump(dst, src net.Conn, idle *idleWatch) (moved int64, ok bool) {
	buf := s.buffer()
	defer s.buffers.Put(buf)
	for {
		n, readErr := src.Read(*buf)
		if n > 0 {
			idle.touch()
			written, err := dst.Write((*buf)[:n])
			moved += int64(written)
			if err != nil {
				return moved, false
			}
			// A slow reader may have held the write for long.
			idle.touch()
		}
		switch {
		case errors.Is(readErr, io.EOF):
			return moved, closeWrite(dst)
		case readErr != nil:
			return moved, false
		}
	}
}
