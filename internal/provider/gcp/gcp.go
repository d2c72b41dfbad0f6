package gcp

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// visibility is how long an accepted creation may stay invisible to reads. Inserts show within seconds; the API promises
// nothing, so this is generous.
const visibility = time.Minute

// memory is for how long the API knows a request ID again (https://google.aip.dev/155 asks for an hour at least), and it shows
// operations for longer than that: how a creation ended outlives every call that could repeat it.
const memory = time.Hour

var idForm = regexp.MustCompile(`^projects/([^/]+)/zones/([a-z0-9-]{1,63})/instances/(proxy-[a-z2-7]{16})$`)

// Provider runs virtual machines on Compute Engine. It is safe for concurrent use, also by several operator processes.
type Provider struct {
	name   string
	config Config
	api    *service
	owner  provider.Owner
	window provider.Window
	rule   rule
	quotas quotas
	heard  heard
}

var (
	_ provider.Provider = (*Provider)(nil)
	_ provider.Checker  = (*Provider)(nil)
	_ io.Closer         = (*Provider)(nil)
)

// Settings are those of the process, for all entries.
type Settings struct {
	// LogPayloads adds bodies to the wire log at V(5), metadata withheld.
	LogPayloads bool
}

// New returns the provider of one configuration entry. It neither dials nor looks for credentials.
func New(ctx context.Context, opts provider.Options) (provider.Provider, error) {
	return Settings{}.New(ctx, opts)
}

// New is the package's New with these settings.
func (o Settings) New(_ context.Context, opts provider.Options) (provider.Provider, error) {
	c, err := decode(opts.Block)
	if err != nil {
		return nil, err
	}
	for _, value := range []string{opts.Owner.Installation, opts.Owner.Cluster} {
		if !labelValue.MatchString(value) {
			return nil, opts.Block.Errorf("", "installation or cluster ID %q cannot be the value of a label", value)
		}
	}
	s, err := newService(c, o)
	if err != nil {
		return nil, opts.Block.Errorf("endpoint", "%v", err)
	}
	w := opts.Window
	w.Visibility = visibility
	return &Provider{
		name: opts.Name, config: c, api: s, owner: opts.Owner, window: w,
		rule: newRule(opts.Owner, opts.Name, c),
	}, nil
}

// Close gives up idle connections. VMs go on.
func (p *Provider) Close() error {
	p.api.close()
	return nil
}

// place is where an instance is.
type place struct{ project, zone, name string }

func (l place) String() string {
	return "projects/" + l.project + "/zones/" + l.zone + "/instances/" + l.name
}

// regionOf returns a zone's region.
func regionOf(zone string) string {
	if m := zoneName.FindStringSubmatch(zone); m != nil {
		return m[1]
	}
	return ""
}

// placeOf reads an ID. One outside of the scope is ErrPermanent with reason ScopeMismatch.
func (p *Provider) placeOf(op, id string) (place, error) {
	mismatch := func(format string, args ...any) (place, error) {
		return place{}, provider.Wrap(provider.ErrPermanent, op, p.name, id, fmt.Errorf(format, args...)).
			WithReason(provider.ReasonScopeMismatch)
	}
	m := idForm.FindStringSubmatch(id)
	switch {
	case m == nil:
		return mismatch("the ID is not that of a VM of this operator")
	case m[1] != p.config.Project:
		return mismatch("project %q is not the one of this provider entry, %q", m[1], p.config.Project)
	case !p.inRegions(m[2]):
		return mismatch("zone %q is in none of this provider entry's regions, %s", m[2], strings.Join(p.config.Regions, ", "))
	}
	return place{m[1], m[2], m[3]}, nil
}

func (p *Provider) inRegions(zone string) bool {
	return len(p.config.Regions) == 0 || slices.Contains(p.config.Regions, regionOf(zone))
}

// Target is the project: quotas and outages of the API are its own.
func (p *Provider) Target(provider.Ref) string { return p.config.Project }

// bound limits a call to the time that one may take.
func (p *Provider) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, p.window.CallTimeout)
}
