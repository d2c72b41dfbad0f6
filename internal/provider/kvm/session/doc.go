// Package session keeps one connection to the libvirt daemon of each host and makes calls on it.
//
// libvirt's protocol has no way to take a call back. So a call that its caller gives up runs on, without anybody waiting for
// it, and others on the same connection never notice. A host that falls silent is found by asking it something small in
// between: its connection is closed then, which ends everything that waits for it. No host knows of another.
package session
