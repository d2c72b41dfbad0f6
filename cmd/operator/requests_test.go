package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// door stands in front of the control plane and keeps a record of who comes through it.
type door struct {
	mu       sync.Mutex
	requests []*passage
}

type passage struct {
	path, agent  string
	query        url.Values
	began, ended time.Time
}

// newDoor returns a door and a kubeconfig that leads through it.
func newDoor(t *testing.T) (d *door, kubeconfig string) {
	t.Helper()
	behind, err := url.Parse(apiConfig.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(apiConfig)
	if err != nil {
		t.Fatal(err)
	}
	d = &door{}
	next := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(behind) }, Transport: transport, FlushInterval: -1,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &passage{path: r.URL.Path, agent: r.UserAgent(), query: r.URL.Query(), began: time.Now()}
		d.mu.Lock()
		d.requests = append(d.requests, p)
		d.mu.Unlock()
		defer func() { // also after a panic, which is how the proxy ends what is cut off
			d.mu.Lock()
			p.ended = time.Now()
			d.mu.Unlock()
		}()
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	c := clientcmdapi.NewConfig()
	c.Clusters["door"] = &clientcmdapi.Cluster{Server: s.URL}
	c.Contexts["door"] = &clientcmdapi.Context{Cluster: "door"}
	c.CurrentContext = "door"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	data, err := clientcmd.Write(*c)
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d, file
}

func (d *door) all() (out []passage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.requests {
		out = append(out, *p)
	}
	return out
}

// TestTheElectionsTimeoutIsItsOwn: the election's requests are cut short, so that one that hangs does not lose it. No other
// request is, least of all a watch.
func TestTheElectionsTimeoutIsItsOwn(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	ns := newNamespace(t, c)
	d, through := newDoor(t)
	const duration = 5 * time.Second
	p := startOperatorOn(t, through, noProviders, "--leader-elect", "--leader-election-lease-duration="+duration.String(),
		"--namespace", ns, "--leader-election-namespace", ns)
	p.eventually(t, "/v1/proxies", http.StatusOK)
	const cut = duration / 3
	watched := map[string]bool{}
	until(t, "watches that are older than three time-outs", func() bool {
		for _, r := range d.all() {
			if r.query.Get("watch") != "" && time.Since(r.began) > 3*cut {
				watched[r.path[strings.LastIndex(r.path, "/"):]] = true
			}
		}
		return watched["/proxies"] && watched["/secrets"]
	})
	elections := 0
	for _, r := range d.all() {
		election := strings.Contains(r.path, "/leases")
		if election {
			elections++
		}
		if named := strings.HasSuffix(r.agent, "/leader-election"); named != election {
			t.Errorf("%s: user agent %q", r.path, r.agent)
		}
		if limited := r.query.Get("timeout") != ""; limited != election {
			t.Errorf("%s: query %v", r.path, r.query)
		}
		// The API server ends some right at their beginning, while it gets to know a definition.
		if lasted := r.ended.Sub(r.began); r.query.Get("watch") != "" && lasted > time.Second {
			t.Errorf("%s: a watch ended after %s", r.path, lasted)
		}
	}
	if elections < 3 {
		t.Errorf("%d requests of the election", elections)
	}
	if err := p.stop(t); err != nil {
		t.Error(err)
	}
}
