//go:build !linux

package forwardproxy

import "syscall"

func lateBind(syscall.RawConn) error { return nil }
