package dial_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial/sshtest"
)

// never checks that the host was told nothing.
func (r *rig) never() {
	r.t.Helper()
	if users := r.Users(); len(users) > 0 {
		r.t.Errorf("the host was told the users %q", users)
	}
}

func TestUnknownHost(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	for _, known := range []string{
		line("other.example", r.HostKey()),
		line("127.0.0.1", r.HostKey()),   // port 22
		line("127.0.0.1:1", r.HostKey()), // another port
		"!" + xknownhosts.Normalize(r.Address()) + ",[127.0.0.1]:* " + strings.SplitN(line("x", r.HostKey()), " ", 2)[1],
	} {
		r.know(known)
		r.fails(dial.HostKeyUnknown, r.Address(), r.target.KnownHostsFile, ssh.FingerprintSHA256(r.HostKey()))
	}
	r.never()
}

func TestOtherKeyThanOnRecord(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	r.know(line(r.Address(), sshtest.NewKey(t, sshtest.Ed25519).PublicKey()))
	r.fails(dial.HostKeyMismatch, r.Address(), r.target.KnownHostsFile, ssh.FingerprintSHA256(r.HostKey()))
	r.know("* " + strings.SplitN(line("x", sshtest.NewKey(t, sshtest.Ed25519).PublicKey()), " ", 2)[1])
	r.fails(dial.HostKeyMismatch)
	r.know(line(r.Address(), sshtest.NewKey(t, sshtest.RSA).PublicKey()))
	r.fails(dial.HostKeyMismatch, "ssh-rsa")
	r.never()
}

func TestRevokedKey(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	for _, known := range [][]string{
		{line(r.Address(), r.HostKey()), "@revoked " + line(r.Address(), r.HostKey())},
		{"@revoked * " + strings.SplitN(line("x", r.HostKey()), " ", 2)[1], line(r.Address(), r.HostKey())},
		{"@revoked " + line("other.example", r.HostKey())},
	} {
		r.know(known...)
		r.fails(dial.HostKeyRevoked, r.Address(), r.target.KnownHostsFile)
	}
	r.never()
}

func TestRevocationThatCannotBeRead(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	good := line(r.Address(), r.HostKey())
	for _, bad := range []string{
		"@revoked " + good[:len(good)-20],
		"@revoke " + good,
		"@revoked @revoked " + good,
		"@REVOKED " + good,
		"@revoked\f" + good,
		"@revoked",
	} {
		r.know(good, bad)
		r.fails(dial.KnownHostsUnreadable, r.target.KnownHostsFile, "line 2")
	}
	r.know(good, "@revoked "+line("x", sshtest.NewKey(t, sshtest.Ed25519).PublicKey()), "what is this", "  # a comment")
	r.works()
}

func TestFormsOfRecords(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	_, port, _ := net.SplitHostPort(r.Address())
	key := " " + strings.SplitN(line("x", r.HostKey()), " ", 2)[1]
	for _, known := range []string{
		xknownhosts.HashHostname(xknownhosts.Normalize(r.Address())) + key,
		"[127.0.0.1]:" + port + key,
		"*" + key,
		"127.0.0.*" + key,
		"[127.0.0.?]:" + port + key,
		"other.example,[127.0.0.1]:" + port + key,
	} {
		r.know("# comment", "", line("other.example", sshtest.NewKey(t, sshtest.Ed25519).PublicKey()), known)
		r.works()
	}
	r.know(xknownhosts.HashHostname(xknownhosts.Normalize(r.Address())) + " " + strings.SplitN(line("x", sshtest.NewKey(t, sshtest.Ed25519).PublicKey()), " ", 2)[1])
	r.fails(dial.HostKeyMismatch)
	r.know(xknownhosts.HashHostname("127.0.0.1") + key)
	r.fails(dial.HostKeyUnknown)
}

// The name counts, in the spelling of the address or in lower case, not where it leads to.
func TestRecordsAreOfNames(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	_, port, _ := net.SplitHostPort(r.Address())
	r.know(line("127.0.0.1:"+port, r.HostKey()))
	r.target.Address = "LocalHost:" + port
	r.fails(dial.HostKeyUnknown, r.target.Address)
	for _, name := range []string{"LocalHost", "localhost"} {
		r.know(line(name+":"+port, r.HostKey()))
		r.works()
	}
}

func TestKindOfKeyOnRecordIsAskedFor(t *testing.T) {
	for _, kind := range sshtest.Kinds() {
		keys := map[sshtest.Kind]ssh.Signer{}
		var all []ssh.Signer
		for _, k := range sshtest.Kinds() {
			keys[k] = sshtest.NewKey(t, k)
			all = append(all, keys[k])
		}
		r := newRig(t, sshtest.Options{HostKeys: all})
		r.know(line(r.Address(), keys[kind].PublicKey()))
		r.works()
	}
}

func TestHostCertificates(t *testing.T) {
	ca, plain := sshtest.NewKey(t, sshtest.Ed25519), sshtest.NewKey(t, sshtest.ECDSA)
	certified := func(by ssh.Signer, change func(*ssh.Certificate), name string) ssh.Signer {
		return sshtest.NewCertSigner(t, sshtest.Certify(t, by, plain.PublicKey(), ssh.HostCert, change, name), plain)
	}
	expired := func(c *ssh.Certificate) { c.ValidBefore = uint64(time.Now().Add(-time.Hour).Unix()) }
	good := certified(ca, nil, "127.0.0.1")
	authority := "@cert-authority * " + strings.SplitN(line("x", ca.PublicKey()), " ", 2)[1]
	for _, tc := range []struct {
		name   string
		shows  ssh.Signer
		known  []string
		reason string
	}{
		{"of another kind than the authority's key", good, []string{authority}, ""},
		{"another authority", certified(sshtest.NewKey(t, sshtest.Ed25519), nil, "127.0.0.1"), []string{authority}, dial.HostKeyMismatch},
		{"expired", certified(ca, expired, "127.0.0.1"), []string{authority}, dial.HostKeyMismatch},
		{"another name", certified(ca, nil, "other.example"), []string{authority}, dial.HostKeyMismatch},
		{"a user's", sshtest.NewCertSigner(t, sshtest.Certify(t, ca, plain.PublicKey(), ssh.UserCert, nil, "127.0.0.1"), plain), []string{authority}, dial.HostKeyMismatch},
		{"not certified", plain, []string{authority}, dial.HostKeyMismatch},
		{"key revoked", good, []string{authority, "@revoked " + line("*", plain.PublicKey())}, dial.HostKeyRevoked},
		{"authority revoked", good, []string{authority, "@revoked " + line("*", ca.PublicKey())}, dial.HostKeyRevoked},
		{"authority of others", good, []string{"@cert-authority *.example " + strings.SplitN(authority, " ", 3)[2]}, dial.HostKeyUnknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, sshtest.Options{HostKeys: []ssh.Signer{tc.shows}})
			r.know(tc.known...)
			if tc.reason == "" {
				r.works()
				return
			}
			r.fails(tc.reason, r.Address(), r.target.KnownHostsFile)
			r.never()
		})
	}
}
