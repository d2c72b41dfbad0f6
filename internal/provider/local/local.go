package local

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// callTimeout bounds one call: everything happens on this host.
const callTimeout = 5 * time.Second

var instanceName = regexp.MustCompile(`^proxy-[a-z2-7]{16}$`)

// Provider runs egress-proxy processes. It is safe for concurrent use, also by several operator processes on one folder.
type Provider struct {
	name string
	host string
	dir  string
	// folder is dir as it was when the provider was made; nothing is read or changed by path.
	folder      *os.Root
	config      Config
	pool        []slotRange
	owner       provider.Owner
	window      provider.Window
	inspections inspections
	// onStep, set by tests alone, is called between two effects of a call.
	onStep func(step string)
}

var (
	_ provider.Provider          = (*Provider)(nil)
	_ provider.CredentialUpdater = (*Provider)(nil)
	_ provider.Targeter          = (*Provider)(nil)
	_ provider.Checker           = (*Provider)(nil)
	_ io.Closer                  = (*Provider)(nil)
)

// New returns the provider of one configuration entry. It makes the state folder and fails on configuration errors alone.
func New(_ context.Context, opts provider.Options) (provider.Provider, error) {
	c, pool, err := decode(opts.Block)
	if err != nil {
		return nil, err
	}
	folder, err := openFolder(c.StateDir)
	if err != nil {
		return nil, opts.Block.Errorf("stateDir", "%v", err)
	}
	w := opts.Window
	w.CallTimeout = min(w.CallTimeout, callTimeout)
	return &Provider{
		name: opts.Name, host: c.Host, dir: c.StateDir, folder: folder, config: c, pool: pool, owner: opts.Owner, window: w,
	}, nil
}

// openFolder makes the folder if it is missing. Whoever can write to it decides what the operator runs and stops.
func openFolder(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	folder, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	info, err := folder.Stat(".")
	if err == nil && info.Mode().Perm()&0o002 != 0 {
		err = fmt.Errorf("mode %04o lets everybody write to it; want 0700", info.Mode().Perm())
	}
	if err != nil {
		_ = folder.Close()
		return nil, err
	}
	return folder, nil
}

// Close gives up the folder. Processes go on; calls after it fail.
func (p *Provider) Close() error { return p.folder.Close() }

func (p *Provider) step(name string) {
	if p.onStep != nil {
		p.onStep(name)
	}
}

// Target returns the host: it fails as a whole.
func (p *Provider) Target(provider.Ref) string { return p.host }

// Plan checks req and returns hosts/<host>/processes/<name>.
func (p *Provider) Plan(ctx context.Context, req provider.CreateRequest) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", p.fail("plan", "", err)
	}
	if err := p.check("plan", "", req); err != nil {
		return "", err
	}
	return p.id(req.Name), nil
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
