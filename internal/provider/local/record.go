package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	recordVersion = 1
	// maxRecord bounds a record in bytes; a real one has well under a KiB.
	maxRecord = 64 << 10

	recordSuffix, authSuffix, logSuffix, tmpSuffix = ".json", ".auth", ".log", ".tmp"
)

// record is the contents of an instance's state file. It holds no secret.
type record struct {
	Version int    `json:"version"`
	Host    string `json:"host"`
	Name    string `json:"name"`
	// Identity is drawn at random by the creating call and never used again.
	Identity  string         `json:"identity"`
	CreatedAt time.Time      `json:"createdAt"`
	Marks     provider.Marks `json:"marks"`
	Listen    netip.Addr     `json:"listen"`
	Port      int32          `json:"port"`
	Exit      netip.Addr     `json:"exit"`
	// Authenticated: the process was started with a credentials file.
	Authenticated bool `json:"authenticated"`
}

// errForeignFile marks a file under an instance's name that is not a record of this host.
var errForeignFile = errors.New("the file is not a record of this provider")

func (p *Provider) path(name, suffix string) string { return filepath.Join(p.dir, name+suffix) }

// read returns the record of name. An absent one matches fs.ErrNotExist, provided that the folder itself is there.
func (p *Provider) read(name string) (record, error) {
	f, err := os.Open(p.path(name, recordSuffix))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return record{}, p.absent(err)
		}
		return record{}, err
	}
	defer f.Close() //nolint:errcheck // only read
	data := make([]byte, maxRecord+1)
	n, err := readFull(f, data)
	if err != nil {
		return record{}, err
	}
	var r record
	if n > maxRecord || json.Unmarshal(data[:n], &r) != nil {
		return record{}, fmt.Errorf("%s: %w", filepath.Base(f.Name()), errForeignFile)
	}
	if r.Version != recordVersion || r.Host != p.host || r.Name != name || r.Identity == "" || r.Port < 1 || r.Port > 65535 {
		return record{}, fmt.Errorf("%s: %w", filepath.Base(f.Name()), errForeignFile)
	}
	return r, nil
}

// absent tells a missing record from a missing folder: only the first is a proof.
func (p *Provider) absent(err error) error {
	if _, dirErr := os.Stat(p.dir); dirErr != nil {
		return fmt.Errorf("the state folder cannot be read: %w", errScope{dirErr})
	}
	return err
}

// errScope hides fs.ErrNotExist: what is missing is the scope, not the instance.
type errScope struct{ err error }

func (e errScope) Error() string { return e.err.Error() }

func (p *Provider) write(r record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	tmp := p.path(r.Name, recordSuffix+tmpSuffix)
	if err := writeFile(tmp, append(data, '\n')); err != nil {
		return err
	}
	// A link fails where something stands already; a rename would silently replace it.
	err = os.Link(tmp, p.path(r.Name, recordSuffix))
	return errors.Join(err, os.Remove(tmp), syncDir(p.dir))
}

func (p *Provider) writeAuth(name string, creds provider.Credentials) error {
	tmp := p.path(name, authSuffix+tmpSuffix)
	if err := writeFile(tmp, []byte(creds.Username+":"+creds.Password+"\n")); err != nil {
		return err
	}
	return errors.Join(os.Rename(tmp, p.path(name, authSuffix)), syncDir(p.dir))
}

// remove takes away everything of the instance, the record last: as long as anything is left, the instance exists.
func (p *Provider) remove(name string) error {
	for _, suffix := range []string{authSuffix, logSuffix, recordSuffix} {
		if err := os.Remove(p.path(name, suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return syncDir(p.dir)
}

// all returns every readable record of this host, foreign installations' included: they take slots too.
func (p *Provider) all() ([]record, error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return nil, err
	}
	var out []record
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), recordSuffix)
		if !ok || !instanceName.MatchString(name) {
			continue
		}
		switch r, err := p.read(name); {
		case err == nil:
			out = append(out, r)
		case errors.Is(err, errForeignFile), errors.Is(err, fs.ErrNotExist):
		default:
			return nil, err
		}
	}
	return out, nil
}

// sweepTemporary removes what a crashed writer left. The folder's lock is held exclusively.
func (p *Provider) sweepTemporary() error {
	left, err := filepath.Glob(filepath.Join(p.dir, "proxy-*"+tmpSuffix))
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
