// Package sshtest is an SSH server inside the test's process. It listens on 127.0.0.1, admits users by their keys,
// connects direct-streamlocal@openssh.com channels to a unix socket, and fails in the ways that a Fault says. It is for
// tests alone.
package sshtest
