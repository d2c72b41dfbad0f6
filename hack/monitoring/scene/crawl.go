package scene

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/egress-proxies/egress-proxies-operator/pkg/client"
)

// crawlers lease proxies, send a request through each and say what came of it, until they are stopped.
type crawlers struct {
	client  *client.Client
	cancel  context.CancelFunc
	running sync.WaitGroup
	fetched atomic.Int64
	failed  chan error // the first that was no refusal
}

// habit is how one kind of crawler goes about it.
type habit struct {
	count  int
	every  time.Duration
	ask    client.Request
	holds  time.Duration
	report func(n int) client.Result
}

func habits() []habit {
	fine := func(n int) client.Result {
		if n%25 == 24 {
			return client.ResultRateLimited
		}
		return client.ResultOK
	}
	pick := func(country string) map[string]string { return map[string]string{"country": country} }
	return []habit{
		{6, 300 * time.Millisecond, client.Request{Selector: pick("de"), Target: "shop.example", Wait: 5 * time.Second}, 250 * time.Millisecond, fine},
		{3, 400 * time.Millisecond, client.Request{Selector: pick("us")}, 200 * time.Millisecond, func(int) client.Result { return client.ResultOK }},
		// More than there is room for: some wait, some do not and are refused.
		{3, 300 * time.Millisecond, client.Request{Selector: pick("li"), Wait: 3 * time.Second}, 400 * time.Millisecond, func(int) client.Result { return client.ResultOK }},
		{1, time.Second, client.Request{Selector: pick("li")}, 200 * time.Millisecond, func(int) client.Result { return client.ResultOK }},
		{1, time.Second, client.Request{Selector: pick("at"), Target: "strict.example"}, 100 * time.Millisecond, func(int) client.Result { return client.ResultBanned }},
		{1, 1500 * time.Millisecond, client.Request{Selector: pick("fr")}, 0, fine},
		{1, 1900 * time.Millisecond, client.Request{Selector: pick("aq")}, 0, fine},
	}
}

// Crawl starts the crawlers.
func (s *Scene) Crawl(ctx context.Context) error {
	c, err := client.New(client.Options{BaseURL: "https://" + s.replicas[0].api, Token: s.token, HTTPClient: s.https})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	s.crawlers = &crawlers{client: c, cancel: cancel, failed: make(chan error, 1)}
	for _, h := range habits() {
		for range h.count {
			s.crawlers.running.Go(func() {
				n := 0
				wait.UntilWithContext(ctx, func(ctx context.Context) {
					if err := s.crawlers.once(ctx, h, n, s.origin.url); err != nil && ctx.Err() == nil {
						select {
						case s.crawlers.failed <- err:
						default:
						}
					}
					n++
				}, h.every)
			})
		}
	}
	return nil
}

// once leases, fetches, reports and releases. A refusal is no error, nor is a proxy that goes while it is used.
func (c *crawlers) once(ctx context.Context, h habit, n int, page string) error {
	lease, err := c.client.Acquire(ctx, h.ask)
	if errors.Is(err, client.ErrNoMatch) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	defer lease.Release(context.WithoutCancel(ctx)) //nolint:errcheck // it expires otherwise
	transport := &http.Transport{Proxy: lease.HTTPProxy, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	if res, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Do(req); err == nil {
		if _, err := io.Copy(io.Discard, res.Body); err == nil && res.StatusCode == http.StatusOK {
			c.fetched.Add(1)
		}
		_ = res.Body.Close()
	}
	hold := time.NewTimer(h.holds)
	defer hold.Stop()
	select {
	case <-hold.C:
	case <-lease.Done():
	case <-ctx.Done():
	}
	if err := lease.Report(ctx, h.report(n), ""); err != nil && ctx.Err() == nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// Fetched returns how many pages came through leased proxies, and what went wrong with a lease first, if anything.
func (s *Scene) Fetched() (int64, error) {
	select {
	case err := <-s.crawlers.failed:
		return s.crawlers.fetched.Load(), err
	default:
		return s.crawlers.fetched.Load(), nil
	}
}

func (c *crawlers) stop() {
	c.cancel()
	c.running.Wait()
	_ = c.client.Close(context.Background()) // what could not be released expires
}

// call sends one request to a replica's API and returns the status.
func (s *Scene) call(ctx context.Context, r *replica, method, path, body string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "https://"+r.api+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	res, err := s.https.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close() //nolint:errcheck // read to its end below
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}
