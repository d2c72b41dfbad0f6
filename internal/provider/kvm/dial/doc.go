// Package dial reaches the libvirt daemon of a host: over the local unix socket, or over SSH, whose server connects the
// channel to the socket on its side (direct-streamlocal@openssh.com). No program runs on the host for it.
//
//   - The host's key is looked up in a known_hosts file, and nothing is sent to a host that does not show a key of record: no
//     name of a user, no signature. A key that is not on record is never learned.
//   - The user authenticates with a key from a file and with nothing else. Signatures with SHA-1 are not made.
//   - Both files are read anew on every Dial, so keys rotate without a restart. A connection that stands is not touched.
//   - Whatever Dial waits for ends when its context ends, and then neither a goroutine nor a socket is left.
//   - Once a host does not answer any more, its connection ends by itself; see keepalive.go.
//
// # Host
//
// The SSH server has to allow AllowStreamLocalForwarding (OpenSSH's default) for a user that may use libvirt's socket. An
// account for nothing else has `restrict,port-forwarding,permitopen="[/var/run/libvirt/libvirt-sock]:*"` before its key in
// authorized_keys: without the last it could reach every port of the host, too.
//
// # Known hosts
//
// The file is as OpenSSH writes it, hashed names, [host]:port, wildcards, @cert-authority and @revoked included. Names are
// looked up as the address spells them, then in lower case. A host that is on record for some kinds of keys is asked for
// these kinds alone. @revoked counts whatever host its line names. A line that cannot be read is passed over, as OpenSSH
// does, unless it has a marker: what was to be revoked must not be accepted because of a typing error.
package dial
