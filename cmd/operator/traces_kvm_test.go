package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial/sshtest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session/wiretest"
)

// kvmEntry is one with these hosts, each with how it is reached, and an image whose URL is a secret.
func (x *stage) kvmEntry(name string, hosts map[string]string) *backend {
	x.t.Helper()
	image := bytes.Repeat([]byte("not quite a disk "), 1<<10)
	s := httptest.NewServer(x.at("the server of images", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(image))
	})))
	x.t.Cleanup(s.Close)
	b := &backend{entry: x.named(name), kind: "kvm", cloudInit: true}
	b.text = fmt.Sprintf("- name: %s\n  type: kvm\n  kvm:\n    hosts:\n", b.entry)
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		b.text += fmt.Sprintf("    - {name: %s, %s}\n", host, hosts[host])
	}
	sum := sha256.Sum256(image)
	b.text += fmt.Sprintf("    images:\n      debian: {url: %q, sha256: %s, format: raw}\n    machineTypes:\n      small: {vcpus: 1, memoryMiB: 512, diskGiB: 4, domainType: qemu}\n",
		strings.Replace(s.URL, "://", "://sentinel-user:sentinel-password@", 1)+"/debian.raw?signature=sentinel", hex.EncodeToString(sum[:]))
	return b
}

// kvm has two hosts with a libvirt daemon in memory: hv-a is reached by SSH, hv-b by its socket.
func (x *stage) kvm() *backend {
	x.t.Helper()
	dir, err := os.MkdirTemp("", "kvm") // the paths of sockets must be short
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	daemons := map[string]*libvirttest.Daemon{"hv-a": libvirttest.NewDaemon(), "hv-b": libvirttest.NewDaemon()}
	for name, d := range daemons {
		api, err := d.Speak(nil)
		if err != nil {
			x.t.Fatal(err)
		}
		wiretest.New(x.t, api).Listen(x.t, filepath.Join(dir, name))
	}
	key, signer := sshtest.NewKeyFile(x.t, sshtest.Ed25519, "")
	server := sshtest.Start(x.t, sshtest.Options{Authorized: []ssh.PublicKey{signer.PublicKey()}})
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			x.t.Fatal(err)
		}
		return path
	}
	x.secrets = append(x.secrets, strings.Fields(string(key))...)
	b := x.kvmEntry("kvm", map[string]string{
		"hv-a": fmt.Sprintf("address: %q, user: %s, keyFile: %s, knownHostsFile: %s, socket: %s", server.Address(), sshtest.DefaultUser, file("key", key),
			file("known_hosts", []byte(knownhosts.Line([]string{server.Address()}, server.HostKey())+"\n")), filepath.Join(dir, "hv-a")),
		"hv-b": "socket: " + filepath.Join(dir, "hv-b"),
	})
	b.placement = func(role string) *v1alpha1.Placement {
		zone := "hv-b"
		if role == roleKept {
			zone = "hv-a"
		}
		return &v1alpha1.Placement{Zone: zone, MachineType: "small", Image: "debian"}
	}
	given := map[string]bool{}
	b.tend = func() {
		for _, d := range daemons {
			for _, dom := range d.Domains() {
				if dom.State != libvirt.DomainRunning || given[dom.MAC] {
					continue
				}
				given[dom.MAC] = true
				// It leads nowhere: no guest is at an address of this host's loopback.
				d.Lease(libvirt.NetworkDhcpLease{
					Iface: "virbr0", Expirytime: time.Now().Add(time.Hour).Unix(), Mac: libvirt.OptString{dom.MAC}, Ipaddr: fmt.Sprintf("192.0.2.%d", len(given)), Prefix: 24,
				})
			}
		}
	}
	b.age = func(uid types.UID) {
		name := provider.NameFromUID(string(uid))
		for _, d := range daemons {
			for _, dom := range d.Domains() {
				if dom.Name == name && !d.SetMetadata(name, string(older([]byte(dom.Metadata), `created="`))) {
					x.t.Errorf("there is no domain %s", name)
				}
			}
		}
	}
	return b
}
