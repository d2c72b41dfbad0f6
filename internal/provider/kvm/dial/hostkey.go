package dial

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// record is what is known about one host's keys.
type record struct {
	at   endpoint
	file string
	// name is what the host is looked up by, host:port.
	name   string
	db     *knownhosts.HostKeyDB
	wanted []knownhosts.PublicKey
}

// recordOf looks a host up. OpenSSH writes names in lower case, ssh-keyscan as they were given.
func recordOf(db *knownhosts.HostKeyDB, file string, at endpoint) *record {
	r := &record{at: at, file: file, db: db}
	for _, host := range []string{at.host, strings.ToLower(at.host)} {
		r.name = endpoint{host, at.port}.String()
		if r.wanted = db.HostKeys(r.name); len(r.wanted) > 0 {
			break
		}
	}
	return r
}

// algorithms returns the host key algorithms to ask for: those of the keys on record, because a host with several keys would
// otherwise show the one that the library likes best. Nil for a host that is not on record, so that its refusal can name
// a key.
func (r *record) algorithms() []string {
	var algorithms []string
	add := func(names ...string) {
		for _, name := range names {
			if !slices.Contains(algorithms, name) {
				algorithms = append(algorithms, name)
			}
		}
	}
	for _, key := range r.wanted {
		switch {
		case key.Cert:
			// An authority signs keys of any kind, not just of its own.
			for _, name := range ssh.SupportedAlgorithms().HostKeys {
				if strings.Contains(name, "-cert-") {
					add(name)
				}
			}
		case key.Type() == ssh.KeyAlgoRSA:
			add(ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		default:
			add(key.Type())
		}
	}
	return algorithms
}

// kinds names the kinds of keys on record.
func (r *record) kinds() string {
	var kinds []string
	for _, key := range r.wanted {
		kind := key.Type()
		if key.Cert {
			kind = "certificate"
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return strings.Join(kinds, ", ")
}

// check returns nil if the host may have this key.
func (r *record) check(key ssh.PublicKey) *Error {
	if r.revoked(key) {
		return failed(HostKeyRevoked, nil, "host %s shows the key %s, which %s revokes; give the host another key", r.at, shown(key), r.file)
	}
	err := r.ask(key)
	if err == nil {
		return nil
	}
	cert, ok := key.(*ssh.Certificate)
	switch {
	case len(r.wanted) == 0:
		return failed(HostKeyUnknown, err, "host %s shows the key %s, but %s has none for it; compare it on the host, then add it", r.at, shown(key), r.file)
	case ok && r.authority(cert.SignatureKey):
		return failed(HostKeyMismatch, err, "host %s shows a certificate of the authority in %s that is not for this name or this time; renew it", r.at, r.file)
	}
	return failed(HostKeyMismatch, err, "host %s shows the key %s, which is not the one in %s: another host answers, or the key was changed; find out which", r.at, shown(key), r.file)
}

// revoked looks at each key that a certificate holds, too: the library refuses those as well, but does not say so in a
// way that a program can tell.
func (r *record) revoked(key ssh.PublicKey) bool {
	keys := []ssh.PublicKey{key}
	if cert, ok := key.(*ssh.Certificate); ok {
		keys = []ssh.PublicKey{cert.Key, cert.SignatureKey}
	}
	for _, key := range keys {
		if _, ok := errors.AsType[*xknownhosts.RevokedError](r.ask(key)); ok {
			return true
		}
	}
	return false
}

func (r *record) authority(key ssh.PublicKey) bool {
	for _, wanted := range r.wanted {
		if wanted.Cert && bytes.Equal(wanted.Marshal(), key.Marshal()) {
			return true
		}
	}
	return false
}

func (r *record) ask(key ssh.PublicKey) error {
	return r.db.HostKeyCallback()(r.name, nowhere, key)
}

// callback is check as the library wants it. Where the connection led to does not matter: a name that leads to another
// address must still show the key of that name.
func (r *record) callback(_ string, _ net.Addr, key ssh.PublicKey) error {
	if err := r.check(key); err != nil {
		return err
	}
	return nil
}

// shown names a key by its kind and fingerprint, as ssh-keygen -l does. Of a certificate it is the key that counts.
func shown(key ssh.PublicKey) string {
	if cert, ok := key.(*ssh.Certificate); ok {
		key = cert.Key
	}
	return key.Type() + " " + ssh.FingerprintSHA256(key)
}
