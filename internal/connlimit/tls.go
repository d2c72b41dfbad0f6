package connlimit

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
)

// Why a handshake failed, for people.
const (
	// HandshakeNotTLS: what arrived is no TLS, mostly plain HTTP.
	HandshakeNotTLS = "not_tls"
	// HandshakeRejected: the client ended it with an alert, mostly because it does not trust the certificate.
	HandshakeRejected = "rejected_by_client"
	// HandshakeTimeout: it was not over when the time for a request's header was.
	HandshakeTimeout = "timeout"
	// HandshakeOther: no common version or cipher, garbage, or a connection that broke.
	HandshakeOther = "other"
)

// HandshakeReasons are all of them.
func HandshakeReasons() []string {
	return []string{HandshakeNotTLS, HandshakeRejected, HandshakeTimeout, HandshakeOther}
}

// plainAnswer is what somebody gets who speaks plain HTTP to a server that wants TLS.
const plainAnswer = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nThis server speaks HTTPS only.\n"

// secure returns l, or what speaks TLS over it. Places are given to TLS connections, so that what they count are the bytes of
// requests. A handshake takes place when the request is read, within the time for that. HTTP/2 is not offered: it would put
// many requests on one connection, and places are for connections.
func secure(l net.Listener, config *tls.Config) net.Listener {
	if config == nil {
		return l
	}
	config = config.Clone()
	config.NextProtos = []string{"http/1.1"}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	return tls.NewListener(l, config)
}

// cut closes p without a word to its peer: TLS would send one and wait for 5 s where it is not read.
func (p *Conn) cut() error {
	if secured, ok := p.Conn.(*tls.Conn); ok {
		_ = secured.NetConn().Close()
	}
	return p.Close()
}

// handshakeFailed tells of a handshake that err ended, once for a connection. Somebody who connects and goes without a word,
// as load balancers do to see whether a port is open, has begun none; nor is it the client's failure when its place was needed.
func (p *Conn) handshakeFailed(err error) {
	secured, ok := p.Conn.(*tls.Conn)
	if !ok || p.served.Load() || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || p.told.Swap(true) {
		return
	}
	reason := HandshakeOther
	var header tls.RecordHeaderError
	var op *net.OpError
	switch {
	case errors.As(err, &header):
		reason = HandshakeNotTLS
		if header.Conn != nil {
			_, _ = io.WriteString(header.Conn, plainAnswer)
		}
	case errors.As(err, &op) && op.Op == "remote error":
		reason = HandshakeRejected
	case errors.Is(err, os.ErrDeadlineExceeded):
		reason = HandshakeTimeout
	}
	if p.among.o.HandshakeFailed != nil {
		p.among.o.HandshakeFailed(secured.RemoteAddr(), reason, err)
	}
}
