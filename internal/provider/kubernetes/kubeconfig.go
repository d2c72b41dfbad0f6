package kubernetes

import (
	"net/http"
	"os"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// rotating sends requests with the credentials that the kubeconfig holds at the time. Token and certificate files that it names
// are followed by client-go; what stands in the file itself is not.
//
// A file that cannot be read or used changes nothing, nor does one that leads to another server: the instances on record are
// on this one.
type rotating struct {
	file string
	// first is the configuration as it was read at first. Its server, and the way there, stay.
	first *rest.Config

	mu   sync.Mutex
	seen os.FileInfo // nil before the first request
	with http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r *rotating) RoundTrip(req *http.Request) (*http.Response, error) {
	return r.current().RoundTrip(req)
}

// CloseIdleConnections is called by http.Client.
func (r *rotating) CloseIdleConnections() {
	r.mu.Lock()
	defer r.mu.Unlock()
	closeIdle(r.with)
}

func closeIdle(t http.RoundTripper) {
	for t != nil {
		if c, ok := t.(interface{ CloseIdleConnections() }); ok {
			c.CloseIdleConnections()
			return
		}
		w, ok := t.(interface{ WrappedRoundTripper() http.RoundTripper })
		if !ok {
			return
		}
		t = w.WrappedRoundTripper()
	}
}

func (r *rotating) current() http.RoundTripper {
	now, err := os.Stat(r.file)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || sameFile(r.seen, now) {
		return r.with
	}
	r.seen = now // what is wrong now is not read again until it is another file
	config, err := clientcmd.BuildConfigFromFlags("", r.file)
	if err != nil || config.Host != r.first.Host {
		return r.with
	}
	config = settings(config)
	config.WrapTransport, config.Dial = r.first.WrapTransport, r.first.Dial
	next, err := rest.TransportFor(config)
	if err != nil {
		return r.with
	}
	closeIdle(r.with) // connections may be the old credentials' own
	r.with = next
	return next
}

// sameFile reports whether two looks at a file have seen the same state of it.
func sameFile(before, now os.FileInfo) bool {
	return before != nil && os.SameFile(before, now) && before.ModTime().Equal(now.ModTime()) && before.Size() == now.Size()
}
