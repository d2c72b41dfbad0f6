package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/pkg/client"
)

// One lease, used with plain net/http until it is given back.
func Example() {
	ctx := context.Background()
	c, err := client.New(client.Options{
		BaseURL:     "http://egress-proxies.crawling.svc:8090",
		TokenSource: client.TokenFile("/run/secrets/egress/token"),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)

	lease, err := c.Acquire(ctx, client.Request{
		Selector: map[string]string{"country": "de"},
		Target:   "shop.example",
		Wait:     time.Minute,
	})
	if err != nil {
		log.Print(err)
		return
	}
	defer lease.Release(ctx)

	transport := &http.Transport{Proxy: lease.HTTPProxy}
	defer transport.CloseIdleConnections()
	crawl := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	resp, err := crawl.Get("https://shop.example/")
	if err != nil {
		log.Print(err)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusForbidden {
		if err := lease.Report(ctx, client.ResultBanned, ""); err != nil {
			log.Print(err)
		}
	}
}

// A transport leases, reports and releases by itself.
func ExampleTransport() {
	ctx := context.Background()
	c, err := client.New(client.Options{BaseURL: "http://egress-proxies.crawling.svc:8090"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)
	transport, err := client.NewTransport(client.TransportOptions{
		Client:           c,
		Lease:            client.Request{Wait: time.Minute, Prefer: client.PreferRotation},
		RequestsPerLease: 100,
		MaxLeases:        50,
	})
	if err != nil {
		log.Print(err)
		return
	}
	defer transport.Close(ctx)

	crawl := &http.Client{Transport: transport, Timeout: 2 * time.Minute}
	resp, err := crawl.Get("https://shop.example/")
	if errors.Is(err, client.ErrNoMatch) {
		log.Print("every exit rests")
		return
	}
	if err != nil {
		log.Print(err)
		return
	}
	defer resp.Body.Close()
}

// A lease tells when it ends.
func ExampleLease_Done() {
	work := func(ctx context.Context, lease *client.Lease, pages <-chan string) error {
		for {
			select {
			case <-lease.Done():
				// Somebody else may have the proxy by now.
				return lease.Err()
			case <-lease.Ending():
				// Still ours until it expires; time to finish.
				return nil
			case <-ctx.Done():
				return ctx.Err()
			case <-pages:
			}
		}
	}
	_ = work
}

// A refusal says why, and when one could be free.
func ExampleNoMatchError() {
	err := fmt.Errorf("crawl: %w", &client.NoMatchError{Considered: 9, AtCapacity: 4, InCooldown: 3, Unhealthy: 2})
	var none *client.NoMatchError
	if errors.As(err, &none) {
		fmt.Println(none.InCooldown, "of", none.Considered, "rest")
	}
	// Output: 3 of 9 rest
}

// All proxies of a country, page after page.
func ExampleClient_Proxies() {
	list := func(ctx context.Context, c *client.Client) error {
		for p, err := range c.Proxies(ctx, client.ListOptions{Selector: map[string]string{"country": "de"}}) {
			if err != nil {
				return err
			}
			fmt.Println(p.Namespace, p.Name, p.ExitAddress)
		}
		return nil
	}
	_ = list
}

// Judging answers by more than their status.
func ExampleDefaultClassify() {
	classify := func(resp *http.Response, err error) client.Result {
		if err == nil && resp.Header.Get("X-Captcha") != "" {
			return client.ResultBanned
		}
		return client.DefaultClassify(resp, err)
	}
	fmt.Println(classify(&http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{}}, nil))
	// Output: rate_limited
}
