package dial

import (
	"errors"
	"strings"

	"golang.org/x/crypto/ssh"
)

// notAdmitted is how the library says that no method of authentication is left. It is the one message that is read: a
// host that takes no keys at all is not told apart otherwise from one that breaks the protocol.
const notAdmitted = "unable to authenticate"

// explain turns what went wrong in open into the Error of that. The host's own words are left out: they may hold anything,
// such as the port at our end.
func (s *session) explain(err error) *Error {
	if verdict, ok := errors.AsType[*Error](err); ok {
		return verdict // on the host's key
	}
	whom := host(s.record.at)
	switch {
	case timedOut(err):
		return late(err, whom, s.waitingFor())
	case s.admitted.Load():
		return s.unopened(err)
	case broken(err):
		return failed(SSHHandshakeFailed, err, "%s hung up when it was to %s; see sshd's log there", whom, s.waitingFor())
	case s.accepted.Load() && (s.asked.Load() || strings.Contains(err.Error(), notAdmitted)):
		return failed(SSHAuthFailed, err, "%s does not let user %q in with the key %s (%s); see authorized_keys there", whom, s.target.User, s.target.KeyFile, s.fingerprint())
	}
	if algorithms, ok := errors.AsType[*ssh.AlgorithmNegotiationError](err); ok {
		return s.incompatible(algorithms)
	}
	return failed(SSHHandshakeFailed, err, "%s does not speak SSH as it should; see what listens there", whom)
}

// incompatible is about a host that shares no algorithm with us.
func (s *session) incompatible(err *ssh.AlgorithmNegotiationError) *Error {
	if kinds := s.record.kinds(); err.What == "host key" && kinds != "" {
		return failed(HostKeyMismatch, err, "%s has no key of the kinds in %s (%s): another host answers, or the keys were changed; find out which", host(s.record.at), s.record.file, kinds)
	}
	return failed(SSHHandshakeFailed, err, "%s shares no algorithm with the operator (%s); update its SSH server", host(s.record.at), err.What)
}

// unopened is about a channel to the socket that was not opened.
func (s *session) unopened(err error) *Error {
	whom, socket := host(s.record.at), s.target.Socket
	refusal, ok := errors.AsType[*ssh.OpenChannelError](err)
	switch {
	case !ok:
		return failed(LibvirtUnreachable, err, "%s hung up when it was to open %s; see sshd's log there", whom, socket)
	case refusal.Reason == ssh.Prohibited || refusal.Reason == ssh.UnknownChannelType:
		return failed(LibvirtUnreachable, err, "%s does not forward to sockets; set AllowStreamLocalForwarding for user %q in its sshd_config", whom, s.target.User)
	}
	// OpenSSH does not tell these apart.
	return failed(LibvirtUnreachable, err, "%s cannot open %s: see that libvirtd runs, that user %q may use its socket, and that sshd_config has AllowStreamLocalForwarding", whom, socket, s.target.User)
}

// fingerprint names the key that authorized_keys has to have.
func (s *session) fingerprint() string { return shown(s.keys[len(s.keys)-1].PublicKey()) }
