//go:build !linux

package guest

import "os/exec"

func dieWithUs(*exec.Cmd) {}
