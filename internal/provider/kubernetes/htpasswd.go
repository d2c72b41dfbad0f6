package kubernetes

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	// maxPassword is what bcrypt looks at, in bytes.
	maxPassword = 72
	// maxUser keeps a line well below the 8 KiB that basic_ncsa_auth reads, also in the escaped form in which Squid asks.
	maxUser = 1024
)

// htpasswd returns the one line of the helper's file. Of what basic_ncsa_auth takes (crypt(3), hence what libxcrypt knows
// on Debian and Ubuntu), bcrypt is the slowest to guess that a maintained Go library writes.
func htpasswd(c provider.Credentials) ([]byte, error) {
	hash, err := bcrypt.GenerateFromPassword([]byte(c.Password), bcrypt.DefaultCost)
	if err != nil {
		return nil, errors.New("spec.auth: the password cannot be hashed")
	}
	// The library writes $2a$. In crypt(3) that prefix has countermeasures against a fault that others once had with
	// characters beyond ASCII; $2b$ is the algorithm as it was meant, which is what the library does.
	return []byte(c.Username + ":$2b$" + strings.TrimPrefix(string(hash), "$2a$") + "\n"), nil
}

// checkCredentials refuses what the helper would not take: a running proxy would silently stay with the old credentials.
// The errors hold nothing of either.
func checkCredentials(c provider.Credentials) error {
	control := func(r rune) bool { return r < 0x20 || r == 0x7f }
	switch {
	case c.Username == "" || c.Password == "":
		return errors.New("spec.auth: user name and password must not be empty")
	case strings.Contains(c.Username, ":"):
		return errors.New("spec.auth: the user name holds a colon")
	case strings.ContainsFunc(c.Username+c.Password, control):
		return errors.New("spec.auth: user name or password holds a control character, such as a line's end")
	case c.Username[0] == '#' || c.Username[0] == ' ':
		return errors.New("spec.auth: the user name begins with '#' or a space, which makes a comment of it for Squid")
	case len(c.Username) > maxUser:
		return fmt.Errorf("spec.auth: the user name has %d bytes, at most %d are allowed", len(c.Username), maxUser)
	case len(c.Password) > maxPassword:
		return fmt.Errorf("spec.auth: the password has %d bytes, at most %d are allowed", len(c.Password), maxPassword)
	}
	return nil
}
