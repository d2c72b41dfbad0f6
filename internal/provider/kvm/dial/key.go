package dial

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/crypto/ssh"
)

const (
	// maxKeyFile bounds a key file and a certificate's, in bytes.
	maxKeyFile = 1 << 20

	certSuffix = "-cert.pub"
)

// readKey returns what the user may authenticate with: the certificate, where there is one, and the key. It does not
// block. Its errors are KeyUnreadable.
func readKey(file string) ([]ssh.Signer, error) {
	data, err := readFile(file, maxKeyFile)
	if err != nil {
		return nil, failed(KeyUnreadable, err, "key file %s cannot be read: %v; see that it is mounted", file, err)
	}
	key, err := parseKey(data)
	if err != nil {
		// The parser's words are kept out: they may quote what it stumbled over.
		why := "is not a private key that SSH knows; put one there as ssh-keygen writes it"
		if _, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
			why = "is protected by a passphrase; put a key without one there"
		}
		return nil, failed(KeyUnreadable, nil, "key file %s %s", file, why)
	}
	cert, err := readCert(file+certSuffix, key)
	if err != nil {
		return nil, failed(KeyUnreadable, err, "certificate %s cannot be used: %v; renew it, or take it away", file+certSuffix, err)
	}
	if cert != nil {
		return []ssh.Signer{cert, key}, nil
	}
	return []ssh.Signer{key}, nil
}

// parseKey reads a private key. One for RSA signs with SHA-2 alone, also where a server does not say that it takes that:
// the library would fall back to SHA-1.
func parseKey(data []byte) (ssh.Signer, error) {
	key, err := ssh.ParsePrivateKey(data)
	if err != nil || key.PublicKey().Type() != ssh.KeyAlgoRSA {
		return key, err
	}
	signer, ok := key.(ssh.AlgorithmSigner)
	if !ok {
		return nil, errors.New("cannot choose the algorithm")
	}
	return ssh.NewSignerWithAlgorithms(signer, []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256})
}

// readCert returns a signer for key with the certificate in file, nil without an error when there is no such file.
func readCert(file string, key ssh.Signer) (ssh.Signer, error) {
	data, err := readFile(file, maxKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	parsed, _, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		return nil, errors.New("it is malformed")
	}
	cert, ok := parsed.(*ssh.Certificate)
	if !ok || cert.CertType != ssh.UserCert {
		return nil, errors.New("it is not a user's certificate")
	}
	signer, err := ssh.NewCertSigner(cert, key)
	if err != nil {
		return nil, fmt.Errorf("it is not of the key beside it")
	}
	return signer, nil
}
