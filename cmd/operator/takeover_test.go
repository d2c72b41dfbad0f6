package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/pkg/client"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// electionLease is that of the replicas of these tests, the shortest that there may be.
const electionLease = 5 * time.Second

// replicas are operators of one installation, with a Pod each, behind a Service.
type replicas struct {
	*cloudOnHost
	service *service
	n       int
}

func newReplicas(t *testing.T, subnet int) *replicas {
	t.Helper()
	x := newCloudOnHost(t, subnet)
	x.publish(providersOf(x.entry("cloud", "project-a", "")))
	return &replicas{cloudOnHost: x, service: newService(t, x.c, x.ns)}
}

// replica starts one more, and returns once it is ready.
func (r *replicas) replica(args ...string) *operatorProcess {
	r.t.Helper()
	r.n++
	pod := fmt.Sprintf("operator-%d", r.n)
	pods{r.t, r.c, r.ns}.create(pod, "")
	p := r.start(append([]string{
		"--leader-elect", "--leader-election-lease-duration", electionLease.String(), "--pod-name", pod, "--pod-namespace", r.ns,
		"--provider-call-timeout=5s", "--clock-skew-allowance=0s", "--drain-timeout=1s", loopbackAllowed,
	}, args...)...)
	r.service.runs(pod, p.api)
	until(r.t, pod+" serves", func() bool {
		s := p.status("/v1/proxies")
		return s == http.StatusOK || s == http.StatusServiceUnavailable
	})
	return p
}

func (r *replicas) client() *client.Client {
	r.t.Helper()
	c, err := client.New(client.Options{BaseURL: "http://" + r.service.listener.Addr().String(), Token: "t0ken-of-the-test"})
	fatal(r.t, err)
	r.t.Cleanup(func() { _ = c.Close(context.WithoutCancel(r.t.Context())) })
	return c
}

// fresh asks for a lease on a connection of its own, and returns the status; 0 when there was no answer within a second.
func (r *replicas) fresh(body string) int {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.service.listener.Addr().String()+"/v1/leases", strings.NewReader(body))
	fatal(r.t, err)
	req.Header.Set("Authorization", "Bearer t0ken-of-the-test")
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// TestTheStandbyTakesOverWithinTheElectionLease: the leader is killed, or stopped, while it creates instances. Another one
// grants leases soon after the election lease has run out, and each Proxy gets exactly one instance, of its first attempt.
func TestTheStandbyTakesOverWithinTheElectionLease(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		name   string
		signal syscall.Signal
	}{{"SIGKILL", syscall.SIGKILL}, {"SIGSTOP", syscall.SIGSTOP}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newReplicas(t, 96+i)
			createExternal(t, r.c, r.ns, "leased", startForwardProxy(t))
			first := r.replica()
			crawler := r.client()
			until(t, "the first leads", func() bool { return first.status("/v1/proxies") == http.StatusOK })
			second := r.replica()
			before, err := crawler.Acquire(t.Context(), client.Request{Wait: 20 * time.Second, TTL: 10 * time.Second})
			fatal(t, err)

			// One creation has had its effect and is not answered, one is on its way, one has not begun.
			answered, _ := r.emulator.HoldAnswer(gcpemulator.Match{Call: "instances.insert"})
			r.create("answer-held", "cloud")
			<-answered
			arrived, release := r.emulator.Hold(gcpemulator.Match{Call: "instances.insert"})
			r.create("call-held", "cloud")
			<-arrived
			fatal(t, first.Process.Signal(c.signal))
			began := time.Now()
			r.create("not-begun", "cloud")
			release()

			until(t, "a lease of the second", func() bool { return r.fresh(leaseRequest) == http.StatusCreated })
			took := time.Since(began)
			// The last renewal may be as old as nothing; a follower looks once in a sixth of the lease, give or take a fifth.
			if limit := electionLease + electionLease/6*6/5 + 3*time.Second; took > limit {
				t.Errorf("a lease came %s after the signal, want at most %s", took, limit)
			}
			t.Logf("%s: a lease %s after the signal, with an election lease of %s", c.name, took, electionLease)
			<-before.Done()
			if err := before.Err(); !errors.Is(err, client.ErrExpired) && !errors.Is(err, client.ErrEpochChanged) && !errors.Is(err, client.ErrUnknownLease) {
				t.Errorf("the lease of before ended with %v", err)
			}

			names := []string{"answer-held", "call-held", "not-begun"}
			if c.signal == syscall.SIGSTOP {
				// It awakes in the midst of its calls, while another one leads.
				fatal(t, first.Process.Signal(syscall.SIGCONT))
				if err := first.wait(t, 30*time.Second); err == nil {
					t.Error("the former leader ended as if nothing had happened")
				}
			}
			for _, name := range names {
				untilWithin(t, 2*time.Minute, name+" Ready", func() bool { return r.ready(name) })
				if a := r.get(name).Status.Instance.Attempt; a != 1 {
					t.Errorf("%s is of attempt %d", name, a)
				}
			}
			if left := r.emulator.Leftovers(); len(left) != 2*len(names) { // a VM and its disk each
				t.Errorf("there are %v", left)
			}
			for _, name := range names {
				r.remove(name)
			}
			untilWithin(t, time.Minute, "nothing left", func() bool { return len(r.emulator.Leftovers()) == 0 })
			fatal(t, second.stop(t))
		})
	}
}

// traffic is crawlers that lease and release all the time.
type traffic struct {
	stop func()
	all  sync.WaitGroup

	granted atomic.Int64
	mu      sync.Mutex
	errs    []error
	longest time.Duration
}

func begin(ctx context.Context, crawlers int, c *client.Client) *traffic {
	ctx, cancel := context.WithCancel(ctx)
	x := &traffic{stop: cancel}
	for range crawlers {
		x.all.Go(func() {
			for ctx.Err() == nil {
				x.once(ctx, c)
			}
		})
	}
	return x
}

func (x *traffic) once(ctx context.Context, c *client.Client) {
	began := time.Now()
	lease, err := c.Acquire(context.WithoutCancel(ctx), client.Request{TTL: time.Minute, Wait: 20 * time.Second})
	took := time.Since(began)
	x.mu.Lock()
	x.longest = max(x.longest, took)
	if err != nil {
		x.errs = append(x.errs, fmt.Errorf("after %s: %w", took, err))
	}
	x.mu.Unlock()
	if err != nil {
		return
	}
	x.granted.Add(1)
	// With its ledger the lease may be gone; that is no loss of an acquire.
	_ = lease.Release(context.WithoutCancel(ctx))
}

// end waits until every crawler has come to the end of its request.
func (x *traffic) end() { x.stop(); x.all.Wait() }

// TestARollOutLosesNoAcquire exchanges the replicas one by one, as a Deployment does, while crawlers lease all the time: each
// of their requests is granted, if later. A lease that is held meanwhile ends as documented.
func TestARollOutLosesNoAcquire(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, 98)
	for i := range 6 {
		createExternal(t, r.c, r.ns, fmt.Sprintf("external-%d", i), startForwardProxy(t))
	}
	leader := r.replica()
	until(t, "six proxies on offer", func() bool {
		return len(leader.crawler(t, "t0ken-of-the-test").get("/v1/proxies?healthy=true").Proxies) == 6
	})
	standby := r.replica()
	crawler := r.client()
	held, err := crawler.Acquire(t.Context(), client.Request{TTL: time.Minute})
	fatal(t, err)
	x := begin(t.Context(), 4, crawler)
	defer x.end()
	var counts []int64
	for range 3 {
		next := r.replica() // the surge
		at := x.granted.Load()
		until(t, "traffic before", func() bool { return x.granted.Load() > at+50 })
		fatal(t, leader.stop(t))
		at = x.granted.Load()
		until(t, "traffic after", func() bool { return x.granted.Load() > at+50 })
		counts = append(counts, x.granted.Load())
		leader, standby = standby, next
	}
	x.end()
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.errs) > 0 {
		t.Errorf("%d of %d requests for a lease failed: %v", len(x.errs), x.granted.Load()+int64(len(x.errs)), errors.Join(x.errs[:min(3, len(x.errs))]...))
	}
	t.Logf("%v granted in the course of 3 hand-overs, the longest took %s", counts, x.longest)
	select {
	case <-held.Done():
		if err := held.Err(); !errors.Is(err, client.ErrEpochChanged) && !errors.Is(err, client.ErrUnknownLease) {
			t.Errorf("the lease that was held ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the lease that was held goes on although its ledger is gone")
	}
	for _, p := range []*operatorProcess{standby, leader} {
		fatal(t, p.stop(t))
	}
}
