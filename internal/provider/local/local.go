package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// callTimeout bounds one call: everything happens on this host.
const callTimeout = 5 * time.Second

var instanceName = regexp.MustCompile(`^proxy-[a-z2-7]{16}$`)

// Provider runs egress-proxy processes. It is safe for concurrent use, also by several operator processes on one folder.
type Provider struct {
	name   string
	host   string
	dir    string
	config Config
	pool   []slotRange
	owner  provider.Owner
	window provider.Window
}

var (
	_ provider.Provider          = (*Provider)(nil)
	_ provider.CredentialUpdater = (*Provider)(nil)
	_ provider.Targeter          = (*Provider)(nil)
)

// New returns the provider of one configuration entry. It makes the state folder and fails on configuration errors alone.
func New(_ context.Context, opts provider.Options) (provider.Provider, error) {
	c, pool, err := decode(opts.Block)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.StateDir, 0o700); err != nil {
		return nil, opts.Block.Errorf("stateDir", "%v", err)
	}
	w := opts.Window
	w.CallTimeout = min(w.CallTimeout, callTimeout)
	return &Provider{name: opts.Name, host: c.Host, dir: c.StateDir, config: c, pool: pool, owner: opts.Owner, window: w}, nil
}

// Target returns the host: it fails as a whole.
func (p *Provider) Target(provider.Ref) string { return p.host }

// Plan checks req and returns hosts/<host>/processes/<name>.
func (p *Provider) Plan(ctx context.Context, req provider.CreateRequest) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", p.fail("plan", "", err)
	}
	if err := p.check(req); err != nil {
		return "", err
	}
	return p.id(req.Name), nil
}

func (p *Provider) check(req provider.CreateRequest) error {
	permanent := func(format string, args ...any) *provider.Error {
		return provider.Wrap(provider.ErrPermanent, "plan", p.name, "", fmt.Errorf(format, args...))
	}
	switch place := req.Placement; {
	case !instanceName.MatchString(req.Name):
		return permanent("name %q: want the name that belongs to a UID", req.Name)
	case req.Port < 1 || req.Port > 65535:
		return permanent("port %d: want 1 to 65535", req.Port)
	case req.CloudInit != "":
		return permanent("cloudInit: a local process has none; remove spec.cloudInit")
	case place.Zone != "" && place.Zone != p.host:
		return permanent("placement.zone %q: this provider runs on host %q alone", place.Zone, p.host)
	case place.Region != "" || place.MachineType != "" || place.Image != "":
		return permanent("placement: a local process has neither region, machineType nor image; remove them")
	}
	if req.Credentials == nil && len(p.config.AllowClients) == 0 && p.reachable() {
		return permanent("spec.auth: the pool listens on addresses that others can reach, and neither credentials nor allowClients restrict who may use the proxy").
			WithReason(provider.ReasonOpenProxyRefused)
	}
	return nil
}

// reachable reports whether the pool has a listen address other than loopback. One such slot is enough: which one an
// instance gets depends on what is free.
func (p *Provider) reachable() bool {
	for _, r := range p.pool {
		a := r.single.listen
		if r.network.IsValid() {
			a = r.network.Addr()
		}
		if !a.IsLoopback() {
			return true
		}
	}
	return false
}

func (p *Provider) id(name string) string { return "hosts/" + p.host + "/processes/" + name }

// nameOf returns the instance name in id, or ErrPermanent with reason ScopeMismatch.
func (p *Provider) nameOf(op, id string) (string, error) {
	name, ok := strings.CutPrefix(id, "hosts/"+p.host+"/processes/")
	if !ok || !instanceName.MatchString(name) {
		return "", provider.Wrap(provider.ErrPermanent, op, p.name, id,
			fmt.Errorf("the ID is not one of host %q", p.host)).WithReason(provider.ReasonScopeMismatch)
	}
	return name, nil
}

// bound limits a call to the provider's own timeout.
func (p *Provider) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, p.window.CallTimeout)
}

// fail classifies an error of the operating system. The table is the only place that does.
func (p *Provider) fail(op, id string, err error) *provider.Error {
	class := provider.ErrTransient
	switch {
	case errors.Is(err, errForeignFile):
		class = provider.ErrConflict
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		class = provider.ErrQuotaExceeded
	case errors.Is(err, fs.ErrPermission):
		class = provider.ErrDenied
	}
	return provider.Wrap(class, op, p.name, id, err)
}
