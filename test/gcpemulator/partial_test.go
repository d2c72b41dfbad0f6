package gcpemulator_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"google.golang.org/api/option"
)

// partial adds returnPartialSuccess to lists.
type partial struct{ http.RoundTripper }

func (p partial) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		r = r.Clone(r.Context())
		query := r.URL.Query()
		query.Set("returnPartialSuccess", "true")
		r.URL.RawQuery = query.Encode()
	}
	return p.RoundTripper.RoundTrip(r)
}

func newPartial(r *rig, on bool) *compute.InstancesClient {
	r.Helper()
	if !on {
		return r.instances
	}
	transport := &http.Transport{}
	r.Cleanup(transport.CloseIdleConnections)
	c, err := compute.NewInstancesRESTClient(r.Context(), append(r.options(), option.WithHTTPClient(&http.Client{Transport: partial{transport}}))...)
	must(r.T, err)
	r.Cleanup(func() { must(r.T, c.Close()) })
	return c
}

// shortly ends calls that the SDK would repeat for long.
func shortly(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), 300*time.Millisecond)
}
