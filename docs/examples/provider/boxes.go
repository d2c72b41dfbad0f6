package boxes

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Provider runs each instance as a box. It remembers nothing: what it has to know is on the boxes and in the Proxies' status.
type Provider struct {
	name   string
	config Config
	owner  provider.Owner
	window provider.Window
	api    api
}

var (
	_ provider.Provider = (*Provider)(nil)
	_ provider.Targeter = (*Provider)(nil)
	_ provider.Scoper   = (*Provider)(nil)
)

// New returns the provider of one configuration entry. It does not dial, for a service that is down must not keep the operator
// from starting.
func New(_ context.Context, opts provider.Options) (provider.Provider, error) {
	c, err := decode(opts.Block)
	if err != nil {
		return nil, err
	}
	w := opts.Window
	// An accepted creation shows at once: the service says so. Where a backend says nothing, measure, and be generous.
	w.Visibility = 0
	return &Provider{name: opts.Name, config: c, owner: opts.Owner, window: w, api: newAPI(c)}, nil
}

// Close gives up idle connections. The registry calls it when the entry has changed.
func (p *Provider) Close() error {
	p.api.client.CloseIdleConnections()
	return nil
}

var idForm = regexp.MustCompile(`^racks/([a-z0-9-]{1,32})/boxes/([a-z0-9-]{1,63})$`)

// place is where a box is. Its text is the instance's ID, which names the whole scope.
type place struct{ rack, name string }

func (l place) String() string { return "racks/" + l.rack + "/boxes/" + l.name }

// scope returns where an ID points. An ID that is not ours to judge is never "not found".
func (p *Provider) scope(op, id string) (place, error) {
	m := idForm.FindStringSubmatch(id)
	if m == nil || !slices.Contains(p.config.Racks, m[1]) {
		return place{}, provider.Wrap(provider.ErrPermanent, op, p.name, id,
			fmt.Errorf("want racks/<rack>/boxes/<name> with one of the racks %v", p.config.Racks)).WithReason(provider.ReasonScopeMismatch)
	}
	return place{m[1], m[2]}, nil
}

// InScope implements provider.Scoper.
func (p *Provider) InScope(id string) error {
	_, err := p.scope("get", id)
	return err
}

// Sites implements provider.Scoper: the same rack at another service is another place.
func (p *Provider) Sites(string) []string { return []string{p.config.Endpoint} }

// Target implements provider.Targeter: racks fail one by one, so each has a gate and four calls of its own.
func (p *Provider) Target(ref provider.Ref) string {
	at, err := p.scope("get", ref.ID)
	if err != nil {
		return ""
	}
	return at.rack
}
