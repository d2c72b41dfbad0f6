package health

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// The engine over real connections and the real clock: a sound proxy and one that repeats to the client what it was
// sent. No secret may show up in logs or verdicts.
func TestEngineOverRealProxies(t *testing.T) {
	address, ca := tlsOrigin(t, status(204))
	parrot := func(c net.Conn) {
		request, _ := head(c)
		line := strings.ReplaceAll(request, "\r\n", " ")
		_, _ = io.WriteString(c, "HTTP/1.1 403 "+line+secrets.Password+"\r\nX-Echo: "+line+"\r\n\r\n"+request)
	}
	var mu sync.Mutex
	var logs strings.Builder
	told := make(chan types.NamespacedName, 100)
	store := fleet.NewStore()
	e, err := New(Options{
		Store:  store,
		Prober: NewProber(ProberOptions{}),
		Logger: funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintln(&logs, args)
		}, funcr.Options{Verbosity: 10}),
		OnTransition: func(key types.NamespacedName) { told <- key },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Start(ctx) }()
	add := func(name string, endpoint fleet.Endpoint) {
		store.Apply(proxy(name, func(p *fleet.Proxy) {
			p.Endpoint, p.Credentials = endpoint, &secrets
			p.Probe = v1alpha1.Probe{
				URL: "https://example.com/", ExpectedStatus: 204, CABundle: ca,
				Interval: time.Second, Timeout: enough, SuccessThreshold: 1, FailureThreshold: 2,
			}
		}))
	}
	begin := time.Now()
	add("sound", serve(t, tunnels(established, address)))
	if key := <-told; key.Name != "sound" {
		t.Errorf("told of %s", key)
	}
	t.Logf("first verdict after %v", time.Since(begin))
	add("parrot", serve(t, parrot))
	for key := range told {
		if key.Name == "parrot" {
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if v, _ := e.Verdict(keyOf("sound")); v.Health != fleet.Healthy || v.Latency <= 0 {
		t.Errorf("sound: %+v", v)
	}
	v, _ := e.Verdict(keyOf("parrot"))
	if v.Health != fleet.Unhealthy || v.Reason != v1alpha1.ReasonProxyRefused {
		t.Errorf("parrot: %+v", v)
	}
	mu.Lock()
	defer mu.Unlock()
	all := logs.String() + fmt.Sprintf("%+v", v)
	if !strings.Contains(all, "parrot") {
		t.Errorf("logs say nothing of the transition: %s", all)
	}
	for _, secret := range []string{secrets.Username, secrets.Password, basic(secrets)} {
		if strings.Contains(all, secret) {
			t.Errorf("a secret shows in %s", all)
		}
	}
}
