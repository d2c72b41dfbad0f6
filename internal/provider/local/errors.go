package local

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

var (
	// errForeignFile marks something under an instance's name that is not a record of this host.
	errForeignFile = errors.New("what stands there is not a record of this provider")
	// errReplaced: the configured path leads to another folder than when the provider was made.
	errReplaced = errors.New("the state folder was replaced by another one; put it back, or restart the operator to work with the new one")
	// errPoolFull: instances hold every address of the pool.
	errPoolFull = errors.New("no free address in the pool")
	// errUnusable: addresses of the pool are free, but the host cannot use them.
	errUnusable = errors.New("no address of the pool can be used")
)

// fail classifies what went wrong on this host. The table is the only place that does.
func (p *Provider) fail(op, id string, err error) *provider.Error {
	return provider.Wrap(classOf(err), op, p.name, id, err)
}

func classOf(err error) error {
	switch {
	case errors.Is(err, errForeignFile):
		return provider.ErrConflict
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), // disk
		errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), // descriptors
		errors.Is(err, unix.EAGAIN), // processes: what fork answers at their limit
		errors.Is(err, errPoolFull):
		return provider.ErrQuotaExceeded
	case errors.Is(err, errUnusable) && errors.Is(err, fs.ErrPermission):
		// A port below 1024: this Proxy's affair, not the provider's.
		return provider.ErrPermanent
	case errors.Is(err, errUnusable):
		return provider.ErrTransient
	case errors.Is(err, fs.ErrPermission):
		return provider.ErrDenied
	}
	return provider.ErrTransient
}
