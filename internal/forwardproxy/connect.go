package forwardproxy

import (
	"io"
	"net/http"
)

const established = "HTTP/1.1 200 Connection established\r\n\r\n"

// connect opens a tunnel. The destination is dialled before the connection is
// taken over, so that a failure is an ordinary response.
func (s *Server) connect(w http.ResponseWriter, r *http.Request, rec *record) {
	address, err := connectTarget(r)
	if err != nil {
		s.refuse(w, r, rec, badRequest(err))
		return
	}
	rec.destination = address
	// Content of a CONNECT has no meaning (RFC 9110 §9.3.6); if it were taken
	// for the tunnel's first bytes, two hops could disagree on where it begins.
	if r.ContentLength != 0 {
		s.refuse(w, r, rec, badRequest(errConnectContent))
		return
	}
	upstream, err := s.dial(r.Context(), "tcp", address)
	if err != nil {
		if r.Context().Err() != nil {
			rec.abandon()
		}
		s.refuse(w, r, rec, classify(err))
		return
	}
	defer func() { _ = upstream.Close() }()

	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.refuse(w, r, rec, failure{http.StatusInternalServerError, "proxy_internal_error", "connection cannot be tunnelled"})
		return
	}
	defer func() { _ = client.Close() }()
	rec.status = http.StatusOK
	if _, err := io.WriteString(client, established); err != nil {
		return
	}
	// A client may send its first bytes along with the request.
	early := make([]byte, buffered.Reader.Buffered())
	if _, err := io.ReadFull(buffered.Reader, early); err != nil {
		return
	}
	rec.up, rec.down = s.relay(client, upstream, early)
}
