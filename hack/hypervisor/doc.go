// Command hypervisor runs a command against a real libvirt hypervisor that is there for it alone and leaves nothing behind:
//
//	go run ./hack/hypervisor [flags] -- COMMAND ARGS…
//
// It needs root on Linux and a few of Debian's packages, which hack/hypervisor/install installs. libvirtd, virtlogd, dnsmasq,
// sshd and QEMU run in namespaces of their own, on folders of their own in the places where they look for them: a libvirt of
// this host is neither seen nor touched. The command runs in there too and finds in its environment:
//
//	E2E_KVM_ADDRESS            of the sshd: 127.0.0.1:PORT
//	E2E_KVM_USER, E2E_KVM_KEY_FILE, E2E_KVM_KNOWN_HOSTS_FILE
//	E2E_KVM_SOCKET             of libvirtd, as seen by that user: what to ask sshd to forward to
//	E2E_KVM_URI                for virsh, without SSH
//	E2E_KVM_POOL               a pool of files in a folder, by its name
//	E2E_KVM_NETWORK            a network with DHCP that forwards by NAT, by its name
//	E2E_KVM_GATEWAY            the host's address there
//	E2E_KVM_IMAGE, E2E_KVM_IMAGE_SHA256   what -image has named, if anything
//	E2E_KVM_NAMESERVER         whom guests ask for names
//	E2E_KVM_CONTROL            the socket of hack/cluster/control, to stop, kill, start, pause and resume components
//	E2E_LOGS                   the folder of the components' logs and, in libvirt/qemu, of those of domains
//
// With -hosts 2 there is a second host with everything of its own but the kernel, its network and the logs' folder; its
// variables end with _2. The components are virtlogd, libvirtd and sshd, those of the second host virtlogd-2 and so on. From
// a shell they are ended and started with `kvm-control kill libvirtd`; `kvm-on-2 COMMAND` runs a command as on the second
// host. Killing libvirtd leaves domains running. Killing sshd cuts its connections, stopping it does not.
//
// Guests reach every address of the host's, also one that the command adds: ip addr add 198.51.100.10/32 dev lo. They ask
// E2E_KVM_NAMESERVER for names, some by way of the gateway; nobody answers there unless the command does. The world outside
// is out of reach.
//
// Whether KVM works is for the command to find out; /dev/kvm being there says little. Type qemu always works.
//
// A terminal works as ever: -- bash looks around in there.
//
// The exit code is the command's; 2 when something is missing or misused, 1 when the hypervisor does not come up.
package main
