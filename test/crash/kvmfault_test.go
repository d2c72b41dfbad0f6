package crash

import (
	"bytes"
	"errors"
	"io"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// refusalOf is how a daemon answers where a fault says so.
func refusalOf(f providertest.Fault) error {
	if f.Applied || f.ArriveAfter > 0 {
		return errLost
	}
	code := libvirt.ErrInternalError
	switch {
	case errors.Is(f.Err, provider.ErrPermanent):
		code = libvirt.ErrInvalidArg
	case errors.Is(f.Err, provider.ErrQuotaExceeded):
		code = libvirt.ErrNoMemory
	case errors.Is(f.Err, provider.ErrDenied):
		code = libvirt.ErrAccessDenied
	}
	return libvirt.Error{Code: uint32(code), Message: f.Err.Error()}
}

// upper is before the wire. It takes what is uploaded along with the call, as buffers do: it may arrive when the caller is dead.
type upper struct {
	session.API
	d *daemon
}

func (u *upper) StorageVolUpload(v libvirt.StorageVol, from io.Reader, offset, length uint64, flags libvirt.StorageVolUploadFlags) error {
	content, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	u.d.mu.Lock()
	u.d.sizes[v.Name] = length
	u.d.mu.Unlock()
	return u.API.StorageVolUpload(v, bytes.NewReader(content), offset, length, flags)
}

// lower is behind the wire: what the daemon in memory does otherwise than libvirt.
type lower struct {
	session.API
	d *daemon
}

// StorageVolUpload breaks off in the midst where it is to.
func (l *lower) StorageVolUpload(v libvirt.StorageVol, from io.Reader, offset, length uint64, flags libvirt.StorageVolUploadFlags) error {
	l.d.mu.Lock()
	torn := l.d.torn
	l.d.mu.Unlock()
	if !torn {
		return l.API.StorageVolUpload(v, from, offset, length, flags)
	}
	if err := l.API.StorageVolUpload(v, io.LimitReader(from, int64(length/2)), offset, length, flags); err != nil {
		return err
	}
	return errLost
}

// DomainCreateWithFlags fails where it is to, after the daemon has tried.
func (l *lower) DomainCreateWithFlags(d libvirt.Domain, flags uint32) (libvirt.Domain, error) {
	l.d.mu.Lock()
	fails := l.d.failStart
	l.d.mu.Unlock()
	got, err := l.API.DomainCreateWithFlags(d, flags)
	if fails && err == nil {
		l.d.Set(d.Name, libvirt.DomainShutoff, int32(libvirt.DomainShutoffFailed))
		err = libvirt.Error{Code: uint32(libvirt.ErrInternalError), Message: "qemu unexpectedly closed the monitor"}
	}
	return got, err
}

// DomainUndefineFlags lets a domain that runs live on until it is switched off.
func (l *lower) DomainUndefineFlags(d libvirt.Domain, flags libvirt.DomainUndefineFlagsValues) error {
	for _, dom := range l.d.Domains() {
		if dom.UUID == uuid.UUID(d.UUID).String() && active(dom) {
			l.d.mu.Lock()
			defer l.d.mu.Unlock()
			if l.d.transient[dom.UUID] {
				return libvirt.Error{Code: uint32(libvirt.ErrOperationInvalid), Message: "cannot undefine transient domain"}
			}
			l.d.transient[dom.UUID] = true
			return nil
		}
	}
	return l.API.DomainUndefineFlags(d, flags)
}

func (l *lower) DomainDestroyFlags(d libvirt.Domain, flags libvirt.DomainDestroyFlagsValues) error {
	err := l.API.DomainDestroyFlags(d, flags)
	l.d.sweep()
	return err
}

func (l *lower) DomainDefineXMLFlags(xml string, flags libvirt.DomainDefineFlags) (libvirt.Domain, error) {
	d, err := l.API.DomainDefineXMLFlags(xml, flags)
	if err == nil {
		l.d.mu.Lock()
		defer l.d.mu.Unlock()
		delete(l.d.transient, uuid.UUID(d.UUID).String())
	}
	return d, err
}

// sweep removes the transient domains that are off.
func (d *daemon) sweep() {
	if d.real {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, dom := range d.Domains() {
		if d.transient[dom.UUID] && !active(dom) {
			delete(d.transient, dom.UUID)
			d.Undefine(dom.Name)
		}
	}
}
