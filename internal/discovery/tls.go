package discovery

import (
	"crypto/tls"
	"net"
)

// secured returns l, or what speaks TLS over it. Places are given to TLS connections, so that what they count are the bytes of
// requests. A handshake takes place when the request is read, within the time for that. HTTP/2 is not offered: it would put
// many requests on one connection, and places are for connections.
func (s *Server) secured(l net.Listener) net.Listener {
	if s.o.TLS == nil {
		return l
	}
	config := s.o.TLS.Clone()
	config.NextProtos = []string{"http/1.1"}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	return tls.NewListener(l, config)
}

// cut closes p without a word to its peer: TLS would send one and wait for 5 s where it is not read.
func (p *placed) cut() error {
	if secure, ok := p.Conn.(*tls.Conn); ok {
		_ = secure.NetConn().Close()
	}
	return p.Close()
}
