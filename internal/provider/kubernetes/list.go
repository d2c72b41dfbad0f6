package kubernetes

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// pageSize keeps a page of Pods at a few MiB.
const pageSize = 500

// ListByTag lists Pods and Secrets with this installation's marks in every namespace of the entry. A namespace that cannot
// be read is named as unread as long as another one can.
func (p *Provider) ListByTag(ctx context.Context) (provider.Listing, error) {
	ctx = p.calling(ctx, "list", "")
	listing, err := p.list(ctx)
	if err == nil && detailed(ctx) {
		logger(ctx).V(2).Info("instances", "count", len(listing.Instances), "unread", listing.Unread)
	}
	outcome(ctx, err)
	return listing, err
}

func (p *Provider) list(ctx context.Context) (provider.Listing, error) {
	ctx, cancel := p.bound(ctx)
	defer cancel()
	var out provider.Listing
	var first error
	scopes := p.scopes()
	for _, namespace := range scopes {
		found, err := p.listIn(ctx, namespace)
		if err == nil {
			out.Instances = append(out.Instances, found...)
			continue
		}
		if first == nil {
			first = err
		}
		out.Unread = append(out.Unread, namespace)
	}
	if len(out.Unread) == len(scopes) {
		return provider.Listing{}, p.fail("list", "", first)
	}
	return out, nil
}

// scopes are the namespaces to list, each by itself; an empty one stands for all.
func (p *Provider) scopes() []string {
	switch {
	case p.config.Namespace != "":
		return []string{p.config.Namespace}
	case len(p.config.Namespaces) > 0:
		return p.config.Namespaces
	}
	return []string{metav1.NamespaceAll}
}

// listIn reads Secrets before Pods: what is made meanwhile shows with its Pod then, and not as the rest of an instance.
func (p *Provider) listIn(ctx context.Context, namespace string) ([]provider.Instance, error) {
	found := map[string]provider.Instance{}
	for next := ""; ; {
		page := &corev1.SecretList{}
		if err := p.api.list(ctx, secrets, namespace, p.page(next), page); err != nil {
			return nil, err
		}
		for i := range page.Items {
			if inst := p.rest(&page.Items[i].ObjectMeta); p.listed(inst) {
				found[inst.ID] = inst
			}
		}
		if next = page.Continue; next == "" {
			break
		}
	}
	for next := ""; ; {
		page := &corev1.PodList{}
		if err := p.api.list(ctx, pods, namespace, p.page(next), page); err != nil {
			return nil, err
		}
		for i := range page.Items {
			if inst := p.ofPod(&page.Items[i]); p.listed(*inst) {
				found[inst.ID] = *inst
			}
		}
		if next = page.Continue; next == "" {
			break
		}
	}
	out := make([]provider.Instance, 0, len(found))
	for _, id := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[id])
	}
	return out, nil
}

func (p *Provider) page(next string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: selector(p.owner), Limit: p.pageSize, Continue: next}
}

// listed reports whether an instance is this installation's, under a name that an ID may have.
func (p *Provider) listed(inst provider.Instance) bool {
	_, err := p.placeOf("list", inst.ID)
	return err == nil && p.owner.Owns(inst.Marks)
}

// rest describes an instance of which a list shows the Secret alone: a new one may be half made, in an old one the Pod has
// gone.
func (p *Provider) rest(o *metav1.ObjectMeta) provider.Instance {
	inst := describe(o)
	// Once so much time has passed, the Pod of a Secret made then is there or will not be.
	if age := (provider.Ref{RequestedAt: o.CreationTimestamp.Time}); p.window.Passed(age) {
		inst.State, inst.Message = ofRest(o), podGone
	} else {
		inst.State, inst.Message = provider.StateProvisioning, nothingYet
	}
	return inst
}
