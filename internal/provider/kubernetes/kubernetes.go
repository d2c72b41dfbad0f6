package kubernetes

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// visibility is how long a creation may take effect after its call has ended: etcd gives a write up after 5 s and two
// election time-outs of 1 s each, whatever its caller did meanwhile.
const visibility = 10 * time.Second

var instanceName = regexp.MustCompile(`^proxy-[a-z2-7]{16}$`)

// Provider runs Pods with Squid. It is safe for concurrent use, also by several operator processes.
type Provider struct {
	name   string
	config Config
	api    *api
	owner  provider.Owner
	window provider.Window
	// squid is the configuration of every Pod, less what a request decides.
	squid squidSettings
	// pageSize bounds a list's pages, and so what is in memory at a time.
	pageSize int64
}

var (
	_ provider.Provider          = (*Provider)(nil)
	_ provider.CredentialUpdater = (*Provider)(nil)
	_ provider.Watcher           = (*Provider)(nil)
	_ provider.Checker           = (*Provider)(nil)
	_ io.Closer                  = (*Provider)(nil)
)

// New returns the provider of one configuration entry. It does not dial.
func New(_ context.Context, opts provider.Options) (provider.Provider, error) {
	c, err := decode(opts.Block)
	if err != nil {
		return nil, err
	}
	cluster, err := clusterConfig(c.Kubeconfig)
	if err != nil {
		return nil, opts.Block.Errorf("kubeconfig", "%v", err)
	}
	return newProvider(opts, c, cluster)
}

func newProvider(opts provider.Options, c Config, cluster *rest.Config) (*Provider, error) {
	for _, value := range []string{opts.Owner.Installation, opts.Owner.Cluster} {
		if len(validation.IsValidLabelValue(value)) > 0 {
			return nil, opts.Block.Errorf("", "installation or cluster ID %q cannot be the value of a label", value)
		}
	}
	a, err := newAPI(cluster, c.Kubeconfig)
	if err != nil {
		return nil, opts.Block.Errorf("kubeconfig", "%v", err)
	}
	w := opts.Window
	w.Visibility = visibility
	return &Provider{
		name: opts.Name, config: c, api: a, owner: opts.Owner, window: w, pageSize: pageSize,
		squid: squidSettings{clients: clientSpans(c.AllowClients), refused: refusedDestinations(c.ClusterCIDRs, c.AllowDestinations)},
	}, nil
}

// clusterConfig finds the API server: that of the file, or else the one that the operator itself works for.
func clusterConfig(path string) (*rest.Config, error) {
	if path != "" {
		return clientcmd.BuildConfigFromFlags("", path)
	}
	return ctrlconfig.GetConfig()
}

// Close gives up idle connections. Pods go on.
func (p *Provider) Close() error {
	p.api.close()
	return nil
}

// Plan checks req and returns <namespace>/<name>.
func (p *Provider) Plan(ctx context.Context, req provider.CreateRequest) (string, error) {
	const op = "plan"
	if err := ctx.Err(); err != nil {
		return "", p.fail(op, "", err)
	}
	if err := p.check(op, "", req); err != nil {
		return "", err
	}
	return p.planned(req).String(), nil
}

// place is where an instance's Pod and Secret are.
type place struct{ namespace, name string }

func (l place) String() string { return l.namespace + "/" + l.name }

func (p *Provider) planned(req provider.CreateRequest) place {
	if p.config.Namespace != "" {
		return place{p.config.Namespace, req.Name}
	}
	return place{req.Namespace, req.Name}
}

// inScope reports whether the entry's Pods may be in the namespace.
func (p *Provider) inScope(namespace string) bool {
	if p.config.Namespace != "" {
		return namespace == p.config.Namespace
	}
	return len(p.config.Namespaces) == 0 || slices.Contains(p.config.Namespaces, namespace)
}

// placeOf reads an ID. One outside of the scope is ErrPermanent with reason ScopeMismatch.
func (p *Provider) placeOf(op, id string) (place, error) {
	mismatch := func(format string, args ...any) (place, error) {
		return place{}, provider.Wrap(provider.ErrPermanent, op, p.name, id, fmt.Errorf(format, args...)).
			WithReason(provider.ReasonScopeMismatch)
	}
	namespace, name, _ := strings.Cut(id, "/")
	switch {
	case len(validation.IsDNS1123Label(namespace)) > 0 || !instanceName.MatchString(name):
		return mismatch("the ID is not that of a Pod of this operator")
	case !p.inScope(namespace):
		return mismatch("namespace %q is not one of this provider entry", namespace)
	}
	return place{namespace, name}, nil
}

// bound limits a call to the time that one may take.
func (p *Provider) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, p.window.CallTimeout)
}
