package gcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	compute "google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// quotasEvery is how long quotas are shown as they were: they change slowly, and each reading is a call.
const quotasEvery = 10 * time.Minute

// shownQuotas are those that VMs use up.
var shownQuotas = []string{"CPUS", "INSTANCES", "IN_USE_ADDRESSES"}

// quotas are what was last read.
type quotas struct {
	mu    sync.Mutex
	read  time.Time
	shown map[string]string
}

// Check lists at most one VM, as ListByTag does. The one target is the project. Details are what the quotas of the entry's
// regions leave, at most ten minutes old.
func (p *Provider) Check(ctx context.Context) []provider.TargetStatus {
	ctx, cancel := p.bound(p.calling(ctx, "check", ""))
	defer cancel()
	s := provider.TargetStatus{Target: p.config.Project, Details: map[string]string{}}
	began := time.Now()
	err := p.api.probe(ctx, mine(p.owner))
	s.Latency = time.Since(began)
	if err != nil {
		s.Reason, s.Message = reasonOf(ctx, err), said(err).Error()
		return []provider.TargetStatus{s}
	}
	s.Ready, s.Reason = true, provider.CheckReachable
	p.headroom(ctx, s.Details)
	return []provider.TargetStatus{s}
}

// probe asks for one page of one VM.
func (s *service) probe(ctx context.Context, filter string) error {
	_, err := s.api.Instances.AggregatedList(s.project).Filter(filter).MaxResults(1).Fields("id").Context(ctx).Do(partial)
	return done(ctx, verbList, "instances", "", err)
}

func reasonOf(ctx context.Context, err error) string {
	if _, ok := errors.AsType[*credentialsError](err); ok {
		return provider.CheckUnauthorized
	}
	answer, answered := errors.AsType[*googleapi.Error](err)
	switch {
	case answered && answer.Code == http.StatusUnauthorized:
		return provider.CheckUnauthorized
	case answered && answer.Code == http.StatusForbidden && errors.Is(classify(err).class, provider.ErrDenied):
		return provider.CheckForbidden
	case answered:
		return provider.CheckAPIError
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return provider.CheckTimeout
	}
	return provider.CheckUnreachable
}

// headroom adds what is left of the quotas. To read them is a right that the operator does not need.
func (p *Provider) headroom(ctx context.Context, details map[string]string) {
	if len(p.config.Regions) == 0 {
		return
	}
	q := &p.quotas
	q.mu.Lock()
	defer q.mu.Unlock()
	now := p.window.Clock.Now()
	if q.read.IsZero() || now.Sub(q.read) >= quotasEvery {
		regions, err := p.api.regions(ctx)
		if err != nil {
			return // logged
		}
		q.read, q.shown = now, map[string]string{}
		for _, r := range regions {
			if slices.Contains(p.config.Regions, r.Name) {
				q.shown["quota/"+r.Name] = left(r)
			}
		}
	}
	for key, value := range q.shown {
		if len(details) < maxDetails {
			details[key] = value
		}
	}
}

// maxDetails is what a status may have.
const maxDetails = 32

func left(r *compute.Region) string {
	var all []string
	for _, metric := range shownQuotas {
		for _, q := range r.Quotas {
			if q.Metric == metric {
				all = append(all, fmt.Sprintf("%s %g of %g", metric, max(0, q.Limit-q.Usage), q.Limit))
			}
		}
	}
	return strings.Join(all, ", ")
}
