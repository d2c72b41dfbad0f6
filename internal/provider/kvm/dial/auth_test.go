package dial_test

import (
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial/sshtest"
)

func TestKindsOfKeys(t *testing.T) {
	r := newRig(t, sshtest.Options{Banner: "Authorised use only.\n"})
	for _, kind := range sshtest.Kinds() {
		data, key := sshtest.NewKeyFile(t, kind, "")
		write(t, r.target.KeyFile, data)
		r.fails(dial.SSHAuthFailed, r.Address(), r.target.KeyFile, sshtest.DefaultUser, ssh.FingerprintSHA256(key.PublicKey()))
		r.Change(func(o *sshtest.Options) { o.Authorized = []ssh.PublicKey{key.PublicKey()} })
		r.works()
	}
}

func TestWrongUser(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	r.target.User = "root"
	r.fails(dial.SSHAuthFailed, r.Address(), `"root"`)
	r.target.User = ""
	r.fails(dial.SSHAuthFailed, r.Address(), "no user")
}

func TestUserCertificate(t *testing.T) {
	ca := sshtest.NewKey(t, sshtest.Ed25519)
	r := newRig(t, sshtest.Options{UserCA: ca.PublicKey()})
	file := r.target.KeyFile + "-cert.pub"
	for _, kind := range sshtest.Kinds() {
		data, key := sshtest.NewKeyFile(t, kind, "")
		write(t, r.target.KeyFile, data)
		certify := func(of ssh.PublicKey, kind uint32, name string) {
			write(t, file, ssh.MarshalAuthorizedKey(sshtest.Certify(t, ca, of, kind, nil, name)))
		}
		certify(key.PublicKey(), ssh.UserCert, sshtest.DefaultUser)
		r.works()
		certify(key.PublicKey(), ssh.UserCert, "somebody")
		r.fails(dial.SSHAuthFailed)
		certify(key.PublicKey(), ssh.HostCert, sshtest.DefaultUser)
		r.fails(dial.KeyUnreadable, file)
		certify(ca.PublicKey(), ssh.UserCert, sshtest.DefaultUser)
		r.fails(dial.KeyUnreadable, file)
		write(t, file, ssh.MarshalAuthorizedKey(key.PublicKey()))
		r.fails(dial.KeyUnreadable, file)
		write(t, file, []byte("nonsense"))
		r.fails(dial.KeyUnreadable, file)
	}
	// The key itself still works where it is authorized and the certificate is not.
	write(t, file, ssh.MarshalAuthorizedKey(sshtest.Certify(t, sshtest.NewKey(t, sshtest.Ed25519), r.key.PublicKey(), ssh.UserCert, nil, sshtest.DefaultUser)))
	data, key := sshtest.NewKeyFile(t, sshtest.Ed25519, "")
	write(t, r.target.KeyFile, data)
	write(t, file, ssh.MarshalAuthorizedKey(sshtest.Certify(t, r.key, key.PublicKey(), ssh.UserCert, nil, sshtest.DefaultUser)))
	r.Change(func(o *sshtest.Options) { o.Authorized = []ssh.PublicKey{key.PublicKey()} })
	r.works()
}

func TestNoSignaturesWithSHA1(t *testing.T) {
	data, key := sshtest.NewKeyFile(t, sshtest.RSA, "")
	r := newRig(t, sshtest.Options{Authorized: []ssh.PublicKey{key.PublicKey()}, UserAlgorithms: []string{ssh.KeyAlgoRSA}})
	write(t, r.target.KeyFile, data)
	r.fails(dial.SSHAuthFailed)
	r.Change(func(o *sshtest.Options) { o.UserAlgorithms = []string{ssh.KeyAlgoRSASHA256} })
	r.works()
}
