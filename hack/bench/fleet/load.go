package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	leaseRate   = 200 // a second
	scrapeEvery = 15 * time.Second
	listEvery   = 10 * time.Second
)

// load is what crawlers and Prometheus do all the while.
type load struct {
	cancel context.CancelFunc
	all    sync.WaitGroup
	http   *http.Client
	base   string

	mu     sync.Mutex
	took   []time.Duration
	status map[int]int
	// gets and failed count scrapes and lists.
	gets, failed int
}

func (w *world) load(ctx context.Context, o *operator) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{
		cancel: cancel, base: "http://" + o.api, status: map[int]int{},
		http: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 512}},
	}
	l.every(ctx, time.Second/leaseRate, func() { l.all.Go(func() { l.lease(ctx) }) })
	l.every(ctx, scrapeEvery, func() { l.asked(ctx, "http://"+o.metrics+"/metrics") })
	l.every(ctx, listEvery, func() { l.asked(ctx, l.base+"/v1/proxies?healthy=true&limit=500") })
	return l
}

func (l *load) every(ctx context.Context, d time.Duration, f func()) {
	l.all.Go(func() {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				f()
			}
		}
	})
}

// asked reads what is read now and then. That it fails while the operator starts is no surprise; later it would make the load
// another one, so it is told.
func (l *load) asked(ctx context.Context, url string) {
	_, err := get(ctx, url)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gets++
	if err != nil && ctx.Err() == nil {
		l.failed++
	}
}

// lease acquires and releases.
func (l *load) lease(ctx context.Context) {
	began := time.Now()
	id, status := l.acquire(ctx)
	l.mu.Lock()
	l.status[status]++
	if status == http.StatusCreated {
		l.took = append(l.took, time.Since(began))
	}
	l.mu.Unlock()
	if id == "" {
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, l.base+"/v1/leases/"+id, http.NoBody)
	if err != nil {
		return
	}
	_, _ = l.do(req)
}

// acquire returns the status, 0 when there was no answer.
func (l *load) acquire(ctx context.Context) (id string, status int) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.base+"/v1/leases", strings.NewReader(`{"selector":{"country":"de"},"target":"shop.example","ttlSeconds":60}`))
	if err != nil {
		return "", 0
	}
	body, status := l.do(req)
	var got struct{ LeaseID string }
	if json.Unmarshal(body, &got) != nil {
		return "", status
	}
	return got.LeaseID, status
}

func (l *load) do(req *http.Request) (body []byte, status int) {
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := l.http.Do(req)
	if err != nil {
		return nil, 0
	}
	defer func() { _ = res.Body.Close() }()
	if body, err = io.ReadAll(res.Body); err != nil {
		return nil, 0
	}
	return body, res.StatusCode
}

func (l *load) end() {
	l.cancel()
	l.all.Wait()
	l.http.CloseIdleConnections()
}
