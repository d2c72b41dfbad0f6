package host

import (
	"slices"
	"testing"
)

func TestOnlyOtherHostsAreEntered(t *testing.T) {
	first := two.host(1).libvirtd()
	if first.Path != "libvirtd" || first.Name != "libvirtd" {
		t.Errorf("the first host's libvirtd is %s, started as %s %q", first.Name, first.Path, first.Args)
	}
	second := two.host(2).libvirtd()
	if want := append([]string{"libvirtd"}, "-p", private+"/libvirtd-2.pid"); second.Path != programs+"/kvm-on-2" || !slices.Equal(second.Args, want) {
		t.Errorf("the second host's libvirtd is started as %s %q", second.Path, second.Args)
	}
}

func TestKillingSSHDCutsConnections(t *testing.T) {
	if !two.host(1).sshd().KillsDescendants {
		t.Error("connections would outlive the sshd")
	}
	if two.host(1).libvirtd().KillsDescendants {
		t.Error("domains that have just been started would end with libvirtd")
	}
}

func TestUnlockRoot(t *testing.T) {
	for _, c := range []struct{ reason, shadow, want string }{
		{"no password is not locked", "root:*:1:0:99999:7:::\n", ""},
		{"locked", "root:!:1:0:99999:7:::\nother:!:1::::::\n", "root:*:1:0:99999:7:::\nother:!:1::::::\n"},
		{"locked with a password, not first", "other:!:1::::::\nroot:!$6$x:1::::::\n", "other:!:1::::::\nroot:*:1::::::\n"},
		{"somebody else", "notroot:!:1::::::\n", ""},
	} {
		if got := unlockRoot(c.shadow); got != c.want {
			t.Errorf("%s: got %q, want %q", c.reason, got, c.want)
		}
	}
}
