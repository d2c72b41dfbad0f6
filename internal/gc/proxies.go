package gc

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// What the manifests have to grant.
//
// +kubebuilder:rbac:groups=crawl.example.com,resources=proxies,verbs=get;list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// pageSize bounds what one page of Proxies takes in memory.
const pageSize = 500

// liveUIDs returns the UIDs of all Proxies that the operator is responsible for, those being deleted included. It fails
// rather than to return a part of them. Only metadata is read: an object that this version cannot decode is alive too.
func (c *Collector) liveUIDs(ctx context.Context) (set[string], error) {
	uids := set[string]{}
	for token := ""; ; {
		page, err := c.page(ctx, token)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			if page.Items[i].UID == "" {
				return nil, fmt.Errorf("%s/%s was listed without a UID", page.Items[i].Namespace, page.Items[i].Name)
			}
			uids.add(string(page.Items[i].UID))
		}
		token = page.Continue
		if token != "" {
			continue
		}
		if left := page.RemainingItemCount; left != nil && *left > 0 {
			return nil, fmt.Errorf("the list ends with %d Proxies still to come", *left)
		}
		return uids, nil
	}
}

func (c *Collector) page(ctx context.Context, token string) (*metav1.PartialObjectMetadataList, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.CallTimeout)
	defer cancel()
	page := &metav1.PartialObjectMetadataList{}
	page.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("ProxyList"))
	opts := []client.ListOption{client.Limit(pageSize), client.Continue(token)}
	if c.o.Namespace != "" {
		opts = append(opts, client.InNamespace(c.o.Namespace))
	}
	return page, c.o.Live.List(ctx, page, opts...)
}

// gone reads the orphan's Proxy once more. It reports true when no such Proxy exists, or one with another UID that took
// the name over; false when it is there after all. With an error nothing is known.
func (c *Collector) gone(ctx context.Context, o Orphan) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.CallTimeout)
	defer cancel()
	p := &metav1.PartialObjectMetadata{}
	p.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("Proxy"))
	err := c.o.Live.Get(ctx, types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, p)
	switch {
	case err == nil && p.UID == "":
		return false, errors.New("the Proxy was read without a UID")
	case err == nil:
		return string(p.UID) != o.UID, nil
	case absent(err, o.Name):
		return true, nil
	}
	return false, err
}

// absent reports whether err says that the object of that name does not exist. A server that does not serve the
// resource at all (the CRD is not there, or not yet after a start) answers 404 as well, without a Status of its own;
// the client library then makes one up and notes that.
func absent(err error, name string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == name && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
