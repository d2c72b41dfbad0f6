package forwardproxy

import (
	"strings"
	"time"

	"github.com/go-logr/logr"
)

// maxLoggedMethod cuts methods, which a client may make up at any length.
const maxLoggedMethod = 32

// record is what the log may know of one request: nothing of its header fields,
// its path or its credentials.
type record struct {
	method      string
	destination string // host:port, empty until the target proved well-formed
	status      int
	up, down    int64 // body or tunnel bytes, to the destination and to the client
	start       time.Time
}

func (r *record) answer(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// abandon says that the client left first; a later answer reaches nobody.
func (r *record) abandon() { r.answer(statusClientGone) }

func (s *Server) logRequest(r *record) {
	log := s.cfg.Log.V(1)
	if !log.Enabled() {
		return
	}
	log.Info("request",
		"method", r.method[:min(len(r.method), maxLoggedMethod)],
		"destination", r.destination,
		"status", r.status,
		"bytesUp", r.up,
		"bytesDown", r.down,
		"duration", s.cfg.Clock.Since(r.start).String())
}

// logWriter takes what net/http says on its own, such as a recovered panic.
type logWriter struct{ log logr.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.log.V(1).Info("http server", "detail", strings.TrimSpace(string(p)))
	return len(p), nil
}
