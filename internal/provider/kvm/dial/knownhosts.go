package dial

import (
	"bytes"
	"errors"
	"net"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

const (
	// maxKnownHosts bounds a known_hosts file, in bytes.
	maxKnownHosts = 4 << 20
	// readAttempts is how often a file that changes meanwhile is read.
	readAttempts = 3
)

// nowhere stands in for the address that a connection led to. Keys are on record by name, but the library wants to
// parse one.
var nowhere = &net.TCPAddr{IP: net.IPv4zero, Port: defaultPort}

// readKnownHosts returns the keys on record. It does not block. Its errors are KnownHostsUnreadable.
func readKnownHosts(file string) (*knownhosts.HostKeyDB, error) {
	before, err := readFile(file, maxKnownHosts)
	// The library reads the file by itself, twice. A rotation in between could give it two halves.
	for range readAttempts {
		if err != nil {
			return nil, failed(KnownHostsUnreadable, err, "known_hosts file %s cannot be read: %v; see that it is mounted", file, err)
		}
		db, parseErr := knownhosts.NewDB(file)
		var after []byte
		if after, err = readFile(file, maxKnownHosts); err == nil && bytes.Equal(before, after) {
			return checked(file, before, db, parseErr)
		}
		before = after
	}
	return nil, failed(KnownHostsUnreadable, nil, "known_hosts file %s changes while it is read; replace it by a rename", file)
}

// checked returns db if it holds what data has, as far as it matters.
func checked(file string, data []byte, db *knownhosts.HostKeyDB, err error) (*knownhosts.HostKeyDB, error) {
	if err != nil {
		return nil, failed(KnownHostsUnreadable, err, "known_hosts file %s has no line that can be read; write it with ssh-keyscan", file)
	}
	empty, number := true, 0
	for line := range bytes.Lines(data) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		empty = false
		if line[0] == '@' && !understood(db, line) {
			return nil, failed(KnownHostsUnreadable, nil, "known_hosts file %s, line %d: what @ marks cannot be read; mend the line, or take it away", file, number)
		}
	}
	if empty {
		return nil, failed(KnownHostsUnreadable, nil, "known_hosts file %s is empty; add the host's keys with ssh-keyscan", file)
	}
	return db, nil
}

// understood reports whether a line with a marker is one that has its effect.
func understood(db *knownhosts.HostKeyDB, line []byte) bool {
	marker, _, key, _, _, err := ssh.ParseKnownHosts(line)
	if err != nil {
		return false
	}
	switch marker {
	case "cert-authority":
		return true // Without effect it accepts nothing.
	case "revoked":
		// The library's own reading counts.
		_, ok := errors.AsType[*xknownhosts.RevokedError](db.HostKeyCallback()(nowhere.String(), nowhere, key))
		return ok
	}
	return false
}
