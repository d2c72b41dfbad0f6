//go:build linux

package isolation

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Network gives the namespace a loopback interface, one that leads nowhere with the address, and a default route there:
// an address of a Service is translated only after a route was found for it. It forwards what is not for itself.
//
// The interface is one of a pair, as Pods have them: every kernel that runs Pods knows these.
func Network(address string) error {
	err := ip([][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", "node0", "type", "veth", "peer", "name", "nowhere"},
		{"addr", "add", address + "/24", "dev", "node0"},
		{"link", "set", "node0", "up"},
		{"link", "set", "nowhere", "up"},
		{"route", "add", "default", "dev", "node0", "src", address},
	})
	if err != nil {
		return err
	}
	return forward()
}

// Loopback gives the namespace a loopback interface and nothing that leads out of it. It forwards what is not for itself.
func Loopback() error {
	if err := ip([][]string{{"link", "set", "lo", "up"}}); err != nil {
		return err
	}
	return forward()
}

func ip(commands [][]string) error {
	for _, args := range commands {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

func forward() error {
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}
