package dial

import (
	"net"
	"sync/atomic"

	"golang.org/x/crypto/ssh"
)

// clientVersion is what the host's log calls us.
const clientVersion = "SSH-2.0-egress-proxies-operator"

// session is one attempt to get from a TCP connection to libvirt's socket.
type session struct {
	target Target
	record *record
	keys   []ssh.Signer
	tcp    net.Conn

	// What has been reached. The library tells from goroutines of its own, of the host's key again at every rekeying.
	accepted, asked, admitted atomic.Bool
}

// open shakes hands, authenticates and opens the channel. It blocks until that is done, has failed or the TCP connection is
// closed. After an error it is closed. The library's context-aware calls would leave a goroutine
// with the channel's opening behind.
func (s *session) open() (net.Conn, error) {
	transport, channels, requests, err := ssh.NewClientConn(s.tcp, s.record.at.String(), s.config())
	if err != nil {
		return nil, err
	}
	s.admitted.Store(true)
	client := ssh.NewClient(transport, channels, requests)
	c := newConn(s.tcp, client, keepaliveEvery)
	channel, err := client.Dial("unix", s.target.Socket)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	c.Conn = channel
	return c, nil
}

// config leaves out a callback for the banner: nobody would read it.
func (s *session) config() *ssh.ClientConfig {
	return &ssh.ClientConfig{
		User: s.target.User,
		Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
			s.asked.Store(true)
			return s.keys, nil
		})},
		HostKeyAlgorithms: s.record.algorithms(),
		HostKeyCallback: func(name string, remote net.Addr, key ssh.PublicKey) error {
			err := s.record.callback(name, remote, key)
			s.accepted.Store(err == nil)
			return err
		},
		ClientVersion: clientVersion,
	}
}

// waitingFor is what the host is to do next.
func (s *session) waitingFor() string {
	switch {
	case s.admitted.Load():
		return opening
	case s.accepted.Load():
		return authenticating
	}
	return shakingHands
}
