package local

import (
	"errors"
	"fmt"
	"os"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local/instancelock"
)

// stateFlag is how a process is told its record, and what an instance's process is recognised by.
const stateFlag = "--state-file="

// hold says who has an instance's record; the zero value is nobody.
type hold struct {
	// pid is the process that is the instance, 0 when none is.
	pid int
	// ending: a process has it that has come to its end and keeps its lock for an instant more.
	ending bool
	// deleting: a deletion has it.
	deleting bool
	// stranger describes who else has it, in the way of both running and deleting.
	stranger string
}

// holder asks the kernel who has the record of name. Who has it may be anybody that can write to the folder, so the
// process is also asked whether it was started as this instance.
func (p *Provider) holder(name string) (hold, error) {
	f, err := p.openRecord(name)
	if err != nil {
		return hold{}, err
	}
	defer f.Close() //nolint:errcheck // only asked
	info, err := f.Stat()
	if err != nil {
		return hold{}, err
	}
	for range 3 {
		pid, held, err := instancelock.Holder(f)
		switch {
		case err != nil:
			return hold{}, err
		case !held:
			return hold{}, nil
		case pid < 0:
			return hold{deleting: true}, nil
		case pid == 0:
			return hold{stranger: "a process outside of the operator's pid namespace"}, nil
		}
		h := look(pid, info)
		// A pid can pass to another process while it is looked at; with the lock still its own it did not.
		if again, held, err := instancelock.Holder(f); err == nil && held && again == pid {
			return h, nil
		}
	}
	return hold{}, errors.New("the record keeps changing hands")
}

// look tells what the process is that has the record.
func look(pid int, rec os.FileInfo) hold {
	switch path, known := stateFileOf(pid); {
	case known == gone:
		return hold{ending: true}
	case known == unknown:
		return hold{stranger: fmt.Sprintf("process %d, which cannot be looked at", pid)}
	case path == "":
		return hold{stranger: fmt.Sprintf("process %d, which is not a proxy", pid)}
	default:
		// Compared as files: the folder may have been spelled differently when the process was started.
		if found, err := os.Stat(path); err != nil || !os.SameFile(found, rec) {
			return hold{stranger: fmt.Sprintf("process %d, which is the proxy of another record", pid)}
		}
	}
	return hold{pid: pid}
}

// knowledge is how far a process could be looked at.
type knowledge int

const (
	seen    knowledge = iota
	gone              // it has ended, or is about to without a way back
	unknown           // it is there but hidden
)
