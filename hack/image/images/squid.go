package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/egress-proxies/egress-proxies-operator/hack/image/layer"
)

// squidUser is "proxy" of Debian and Ubuntu, as which the provider kubernetes runs Squid.
const squidUser = "13:13"

// squidPrograms run in the container: the shell writes the configuration, the rest is Squid with the helper that checks
// credentials. Of the last two it wants to know that they are there, whatever its configuration says.
func squidPrograms() []string {
	return []string{"/bin/sh", "/usr/sbin/squid", "/usr/lib/squid/basic_ncsa_auth", "/usr/lib/squid/log_file_daemon", "/usr/lib/squid/unlinkd"}
}

// Squid puts the Squid that is installed on this host into an image, as Debian and Ubuntu package it: its programs, the
// libraries that the linker names for them, and its data. It runs ldd, and is for this host's architecture. The other
// helpers are left out: LDAP, Kerberos and Samba would come with them.
func Squid(ctx context.Context) (v1.Image, error) {
	t := tree{}
	for _, p := range squidPrograms() {
		if err := t.add(p); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: the image is made from the package squid of Debian or Ubuntu on this host", err)
		} else if err != nil {
			return nil, err
		}
		libraries, err := ldd(ctx, p)
		if err != nil {
			return nil, err
		}
		for _, l := range libraries {
			if err := t.add(l); err != nil {
				return nil, err
			}
		}
	}
	// Of the settings only what error pages take in: the rest is this host's, and may hold what is secret.
	for _, p := range []string{"/etc/squid/errorpage.css", "/usr/share/squid"} {
		if err := t.add(p); err != nil {
			return nil, err
		}
	}
	proxy := func(e layer.Entry) layer.Entry {
		e.UID, e.GID = 13, 13
		return e
	}
	l, err := layer.New(append(t.entries(),
		// Not the host's own: its accounts are nobody's business.
		layer.File("/etc/passwd", 0o644, []byte("root:x:0:0:root:/:/bin/sh\nproxy:x:13:13:proxy:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")),
		layer.File("/etc/group", 0o644, []byte("root:x:0:\nproxy:x:13:\nnogroup:x:65534:\n")),
		layer.File("/etc/nsswitch.conf", 0o644, []byte("passwd: files\ngroup: files\nhosts: files dns\n")),
		layer.Dir("/tmp", fs.ModeSticky|0o777),
		layer.Dir("/run", 0o755),
		proxy(layer.Dir("/var/log/squid", 0o750)),
		proxy(layer.Dir("/var/spool/squid", 0o750)),
	)...)
	if err != nil {
		return nil, err
	}
	return layer.Image(layer.Spec{
		Arch: runtime.GOARCH, User: squidUser, Entrypoint: []string{"/usr/sbin/squid", "-N"},
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	}, l)
}

// ldd returns the shared libraries of a program, the loader included.
func ldd(ctx context.Context, program string) (libraries []string, err error) {
	cmd := exec.CommandContext(ctx, "ldd", program)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w: %s", program, err, strings.TrimSpace(string(out)))
	}
	for line := range strings.Lines(string(out)) {
		// Either "name => /path (address)" or "/loader (address)"; what the kernel itself provides has no path.
		if strings.Contains(line, "not found") {
			return nil, fmt.Errorf("ldd %s: %s", program, strings.TrimSpace(line))
		}
		for _, field := range strings.Fields(line) {
			if strings.HasPrefix(field, "/") {
				libraries = append(libraries, field)
			}
		}
	}
	return libraries, nil
}
