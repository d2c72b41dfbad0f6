package sshtest

import (
	"io"
	"net"
	"sync"

	"golang.org/x/crypto/ssh"
)

// channelType is how a client asks for a unix socket on the server's side; see OpenSSH's PROTOCOL, section 2.4.
const channelType = "direct-streamlocal@openssh.com"

// forward connects a channel to a socket, and returns when either end is done.
func (s *Server) forward(w *wire, asked ssh.NewChannel, opts Options, fault Fault) {
	if asked.ChannelType() != channelType {
		_ = asked.Reject(ssh.UnknownChannelType, asked.ChannelType())
		return
	}
	var request struct {
		Path     string
		Reserved string
		Port     uint32
	}
	if err := ssh.Unmarshal(asked.ExtraData(), &request); err != nil {
		_ = asked.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, request.Path)
	s.mu.Unlock()
	fault.strike(Channel, w)
	if fault.At == Channel && fault.Do == Prohibit {
		_ = asked.Reject(ssh.Prohibited, "client at "+w.RemoteAddr().String()+": open failed")
		return
	}
	path := opts.Socket
	if path == "" {
		path = request.Path
	}
	// A unix socket on this host takes no time to connect to.
	socket, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: path})
	if err != nil || fault.At == Channel && fault.Do == Fail {
		if err == nil {
			_ = socket.Close()
		}
		_ = asked.Reject(ssh.ConnectionFailed, "client at "+w.RemoteAddr().String()+": open failed")
		return
	}
	channel, requests, err := asked.Accept()
	if err != nil {
		_ = socket.Close()
		return
	}
	both(w, channel, requests, socket, fault)
}

// both copies in both directions until either has ended.
func both(w *wire, channel ssh.Channel, requests <-chan *ssh.Request, socket net.Conn, fault Fault) {
	var once sync.Once
	end := func() {
		once.Do(func() {
			_ = socket.Close()
			_ = channel.Close()
		})
	}
	var work sync.WaitGroup
	work.Go(func() { ssh.DiscardRequests(requests) })
	work.Go(func() {
		defer end()
		pump(w, socket, channel, fault, ToSocket)
	})
	work.Go(func() {
		defer end()
		pump(w, channel, socket, fault, ToClient)
	})
	work.Wait()
}

// pump copies what may pass, and strikes when no more may.
func pump(w *wire, to io.Writer, from io.Reader, fault Fault, at Point) {
	limit := fault.limit(at)
	if limit < 0 {
		_, _ = io.Copy(to, from)
		return
	}
	if _, err := io.CopyN(to, from, limit); err == nil {
		fault.strike(at, w)
		<-w.done // as if the rest were still on its way
	}
}
