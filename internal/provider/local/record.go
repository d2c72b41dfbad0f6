package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	recordVersion = 1
	// maxRecord bounds a record in bytes; a real one has well under a KiB.
	maxRecord = 64 << 10

	recordSuffix, authSuffix, logSuffix, tmpSuffix = ".json", ".auth", ".log", ".tmp"
)

// record is the contents of an instance's state file. It holds no secret and never changes: its file is what the process
// locks.
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

// valid reports whether r is a record of the instance name on host.
func (r record) valid(host, name string) bool {
	return r.Version == recordVersion && r.Host == host && r.Name == name && r.Identity != "" &&
		r.Port >= 1 && r.Port <= 65535 && r.Listen.IsValid() && r.Exit.IsValid()
}

// openRecord opens the record of name for reading. An absent one matches fs.ErrNotExist, what is not a file errForeignFile.
func (p *Provider) openRecord(name string) (*os.File, error) {
	file := name + recordSuffix
	if info, err := p.folder.Lstat(file); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", file, errForeignFile)
	}
	// Not blocking, in case a named pipe came in between.
	return p.folder.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
}

// read returns the record of name.
func (p *Provider) read(name string) (record, error) {
	f, err := p.openRecord(name)
	if err != nil {
		return record{}, err
	}
	defer f.Close() //nolint:errcheck // only read
	data, err := readBounded(f, maxRecord)
	if err != nil {
		return record{}, err
	}
	var r record
	if len(data) > maxRecord || json.Unmarshal(data, &r) != nil || !r.valid(p.host, name) {
		return record{}, fmt.Errorf("%s: %w", name+recordSuffix, errForeignFile)
	}
	return r, nil
}

// write puts the record in place, as a whole or not at all. After an error nothing of it is left.
func (p *Provider) write(r record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	tmp, err := p.writeTemp(r.Name+recordSuffix, append(data, '\n'))
	if err != nil {
		return err
	}
	// A link fails where something stands already; a rename would silently replace it.
	if err := p.folder.Link(tmp, r.Name+recordSuffix); err != nil {
		_ = p.folder.Remove(tmp)
		return err
	}
	if err := errors.Join(p.folder.Remove(tmp), p.sync()); err != nil {
		_ = p.remove(r.Name)
		return err
	}
	return nil
}

func (p *Provider) writeAuth(name string, creds provider.Credentials) error {
	tmp, err := p.writeTemp(name+authSuffix, []byte(creds.Username+":"+creds.Password+"\n"))
	if err != nil {
		return err
	}
	if err := p.folder.Rename(tmp, name+authSuffix); err != nil {
		_ = p.folder.Remove(tmp)
		return err
	}
	return p.sync()
}

// remove takes away everything of the instance, the record last: as long as anything is left, the instance exists.
func (p *Provider) remove(name string) error {
	for _, suffix := range []string{authSuffix, logSuffix, recordSuffix} {
		p.step("remove" + suffix)
		if err := p.removeFile(name + suffix); err != nil {
			return err
		}
	}
	return p.sync()
}

// all returns every readable record of this host, foreign installations' included: they take slots too.
func (p *Provider) all() ([]record, error) {
	names, err := p.entries()
	if err != nil {
		return nil, err
	}
	var out []record
	for _, file := range names {
		name, ok := strings.CutSuffix(file, recordSuffix)
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
