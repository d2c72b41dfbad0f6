package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

type leaseAnswer struct {
	LeaseID string `json:"leaseID"`
	Proxy   struct {
		Name       string            `json:"name"`
		URL        string            `json:"url"`
		Attributes map[string]string `json:"attributes"`
	} `json:"proxy"`
}

func (d *demo) get(ctx context.Context, path string, into any) error {
	return d.call(ctx, http.MethodGet, path, nil, into)
}

func (d *demo) post(ctx context.Context, path string, body, into any) error {
	return d.call(ctx, http.MethodPost, path, body, into)
}

func (d *demo) release(ctx context.Context, id string) error {
	return d.call(ctx, http.MethodDelete, "/v1/leases/"+id, nil, nil)
}

func (d *demo) call(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		reader = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, d.apiURL+path, reader)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // read to its end below
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s %s", method, path, res.Status, bytes.TrimSpace(data))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(data, into)
}

func (d *demo) list(ctx context.Context) error {
	var page struct {
		Count   int `json:"count"`
		Proxies []struct {
			Name    string `json:"name"`
			URL     string `json:"url"`
			Healthy bool   `json:"healthy"`
		} `json:"proxies"`
	}
	if err := d.get(ctx, "/v1/proxies?healthy=true", &page); err != nil {
		return err
	}
	for _, p := range page.Proxies {
		fmt.Printf("      %-8s %s\n", p.Name, p.URL)
	}
	if want := len(d.objects()); page.Count != want {
		return fmt.Errorf("GET /v1/proxies?healthy=true lists %d proxies, want %d", page.Count, want)
	}
	return nil
}

func (d *demo) requestThroughLease(ctx context.Context) error {
	var l leaseAnswer
	body := map[string]any{"selector": map[string]string{"country": "de"}, "target": d.target(), "ttlSeconds": 60}
	if err := d.post(ctx, "/v1/leases", body, &l); err != nil {
		return err
	}
	d.leaseID, d.leased = l.LeaseID, l.Proxy.Name
	seen, err := d.fetchThrough(ctx, l.Proxy.URL)
	if err != nil {
		return err
	}
	fmt.Printf("      leased %s (%s); the origin saw the exit address %s\n", l.Proxy.Name, l.Proxy.URL, seen)
	through, err := url.Parse(l.Proxy.URL)
	if err != nil {
		return err
	}
	if seen != through.Hostname() {
		return fmt.Errorf("the origin saw %s, want %s", seen, through.Hostname())
	}
	return nil
}

// target is the origin as leases name targets: a host.
func (d *demo) target() string {
	u, err := url.Parse(d.originURL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

func (d *demo) fetchThrough(ctx context.Context, proxy string) (string, error) {
	via, err := url.Parse(proxy)
	if err != nil {
		return "", err
	}
	transport := &http.Transport{Proxy: http.ProxyURL(via), DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.originURL+"/", nil)
	if err != nil {
		return "", err
	}
	res, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close() //nolint:errcheck // read to its end below
	data, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s through %s: %s", d.originURL, proxy, res.Status)
	}
	return strings.TrimSpace(string(data)), err
}

// ban reports the leased proxy as banned by the target: the next lease for that target must be another one.
func (d *demo) ban(ctx context.Context) error {
	report := map[string]any{"result": "banned"}
	if err := d.post(ctx, "/v1/leases/"+d.leaseID+"/report", report, nil); err != nil {
		return err
	}
	if err := d.release(ctx, d.leaseID); err != nil {
		return err
	}
	for range 5 {
		var l leaseAnswer
		body := map[string]any{"selector": map[string]string{"country": "de"}, "target": d.target()}
		if err := d.post(ctx, "/v1/leases", body, &l); err != nil {
			return err
		}
		if err := d.release(ctx, l.LeaseID); err != nil {
			return err
		}
		if l.Proxy.Name == d.leased {
			return fmt.Errorf("%s was leased again although it is banned for %s", d.leased, d.target())
		}
		if l.Proxy.Attributes["country"] != "de" {
			return fmt.Errorf("%s does not match the selector", l.Proxy.Name)
		}
		d.leaseID = l.Proxy.Name
	}
	fmt.Printf("      %s cools down for %s; the next five leases were %s\n", d.leased, d.target(), d.leaseID)
	return nil
}
