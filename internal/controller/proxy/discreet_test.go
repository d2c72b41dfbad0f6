package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// TestWhatABackendQuotesIsHidden: backends say what they do not like, and what they do not like may be the cloud-init data or a
// password in it. None of that reaches a condition, an Event or a line of the log, whichever call it comes from.
func TestWhatABackendQuotesIsHidden(t *testing.T) {
	t.Parallel()
	const password, key = "sentinel-password-7c1f", "sentinel-of-cloud-init-91"
	data := "#cloud-config\nwrite_files:\n- content: '" + key + " ${PROXY_PASSWORD}'\n"
	quote := fmt.Sprintf("400 the value '#cloud-config\nwrite_files:\n- content: '%s %s'\n' of field 'items[0].value' is invalid; %s", key, password, password)
	for name, fault := range map[string]func(op string) providertest.Fault{
		"a refused creation": func(op string) (f providertest.Fault) {
			if op == providertest.OpCreate {
				f.Err = provider.Wrap(provider.ErrPermanent, "create", "", "", errors.New(quote))
			}
			return f
		},
		"a look that fails": func(op string) (f providertest.Fault) {
			if op == providertest.OpGet {
				f.Err = provider.Wrap(provider.ErrTransient, "get", "", "", errors.New(quote))
			}
			return f
		},
		"a refused deletion": func(op string) (f providertest.Fault) {
			if op == providertest.OpDelete {
				f.Err = provider.Wrap(provider.ErrPermanent, "delete", "", "", errors.New(quote))
			}
			return f
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			x.secret("creds", v1alpha1.LabelProxyAuth, corev1.SecretTypeBasicAuth, map[string]string{"username": "u", "password": password})
			proxy := x.managed("a")
			x.edit(proxy, func(p *v1alpha1.Proxy) {
				p.Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "creds"}}
				p.Spec.CloudInit = &v1alpha1.CloudInit{Inline: data}
			})
			h := x.entries[x.entry]
			h.Provider = telling{h.Provider}
			x.entries[x.entry] = h
			var log strings.Builder
			ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(prefix, args string) { log.WriteString(prefix + " " + args + "\n") }, funcr.Options{Verbosity: 5}))
			quoted, said := 0, []string(nil)
			x.backend.OnCall(func(op string, _ provider.Ref) providertest.Fault {
				f := fault(op)
				if f.Err != nil {
					quoted++
				}
				return f
			})
			for n := range 12 {
				if n == 6 {
					x.delete(proxy)
				}
				_, _ = x.r.Reconcile(ctx, ctrl.Request{NamespacedName: proxy})
				if p := x.get(proxy); p != nil {
					for _, c := range p.Status.Conditions {
						said = append(said, c.Message)
					}
				}
				x.step(20 * time.Second)
			}
			if n := strings.Count(log.String(), "telling: "); n < quoted {
				t.Errorf("%d lines of the provider's own for %d errors", n, quoted)
			}
			if quoted == 0 {
				t.Fatal("the backend was never asked")
			}
			said = append(append(said, x.events.all()...), log.String())
			for _, text := range said {
				for _, secret := range []string{password, key, "write_files"} {
					if i := strings.Index(text, secret); i >= 0 {
						t.Errorf("%q shows in %.300q", secret, text[max(0, i-100):])
					}
				}
			}
			if !strings.Contains(strings.Join(said, "\n"), "400 the value") {
				t.Errorf("nothing of the reason is left in %q", said)
			}
		})
	}
}

// telling is a provider that logs what its backend says, as they all do.
type telling struct{ provider.Provider }

func (p telling) tell(ctx context.Context, err error) error {
	if err != nil {
		ctrl.LoggerFrom(ctx).WithName("cloud").WithValues("op", "any", "why", err.Error()).V(1).Info("telling: "+provider.Cause(err), "error", err)
	}
	return err
}

func (p telling) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	return p.tell(ctx, p.Provider.Create(ctx, req, ref))
}

func (p telling) Get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	inst, err := p.Provider.Get(ctx, ref)
	return inst, p.tell(ctx, err)
}

func (p telling) Delete(ctx context.Context, ref provider.Ref) error {
	return p.tell(ctx, p.Provider.Delete(ctx, ref))
}
