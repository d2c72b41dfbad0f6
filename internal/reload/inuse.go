package reload

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// pageSize bounds what one page of Proxies takes in memory.
const pageSize = 500

// fieldProvider is one of the Proxy's selectable fields.
const fieldProvider = "spec.provider"

// InUse asks the API server which IDs the Proxies of an entry have on record.
type InUse struct {
	// Live reads from the API server, never from a cache.
	Live client.Reader
	// Namespace restricts the operator; all when empty.
	Namespace string
	// Timeout bounds one page.
	Timeout time.Duration
}

// IDs implements registry.InUse. It fails rather than to return a part of them, and blocks for as long as the pages take.
// Nothing but the ID is decoded: what this version does not understand otherwise is in use, too.
func (u InUse) IDs(ctx context.Context, name string) (ids []string, err error) {
	for token := ""; ; {
		page, err := u.page(ctx, name, token)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			p := &page.Items[i]
			id, _, err := unstructured.NestedString(p.Object, "status", "providerID")
			if err != nil {
				return nil, fmt.Errorf("the status of %s/%s: %w", p.GetNamespace(), p.GetName(), err)
			}
			if id != "" {
				ids = append(ids, id)
			}
		}
		if token = page.GetContinue(); token != "" {
			continue
		}
		if left := page.GetRemainingItemCount(); left != nil && *left > 0 {
			return nil, fmt.Errorf("the list ends with %d Proxies still to come", *left)
		}
		return ids, nil
	}
}

func (u InUse) page(ctx context.Context, name, token string) (*unstructured.UnstructuredList, error) {
	ctx, cancel := context.WithTimeout(ctx, u.Timeout)
	defer cancel()
	page := &unstructured.UnstructuredList{}
	page.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("ProxyList"))
	opts := []client.ListOption{client.Limit(pageSize), client.Continue(token), client.MatchingFields{fieldProvider: name}}
	if u.Namespace != "" {
		opts = append(opts, client.InNamespace(u.Namespace))
	}
	return page, u.Live.List(ctx, page, opts...)
}
