package gcp

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"google.golang.org/api/googleapi"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// lately is how old a list may be that a check relies on.
const lately = 90 * time.Second

// heard is the last list that the project has answered. With a list every minute a call of its own for each check would be
// a fifth of all calls that a thousand instances cost, and would say nothing that the list has not said.
type heard struct {
	mu   sync.Mutex
	at   time.Time
	took time.Duration
}

func (h *heard) note(now time.Time, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at, h.took = now, took
}

func (h *heard) forget() { h.note(time.Time{}, 0) }

func (h *heard) since(now time.Time) (took time.Duration, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.took, !h.at.IsZero() && now.Sub(h.at) < lately
}

// Check lists at most one VM and one disk, as ListByTag does, unless that has just listed all and no call has failed since. The one target is
// the project. Details are what the quotas of the entry's regions leave, at most ten minutes old.
func (p *Provider) Check(ctx context.Context) []provider.TargetStatus {
	ctx, cancel := p.bound(p.calling(ctx, "check", ""))
	defer cancel()
	s := provider.TargetStatus{Target: p.config.Project, Details: map[string]string{}}
	var recent bool
	if s.Latency, recent = p.heard.since(p.window.Clock.Now()); !recent {
		began := time.Now()
		err := p.api.probe(ctx, mine(p.owner))
		s.Latency = time.Since(began)
		if err != nil {
			s.Reason, s.Message = reasonOf(ctx, err), said(err).Error()
			return []provider.TargetStatus{s}
		}
	}
	s.Ready, s.Reason = true, provider.CheckReachable
	p.headroom(ctx, s.Details)
	return []provider.TargetStatus{s}
}

// probe asks for one page of one VM, and for one of one disk: a list needs both.
func (s *service) probe(ctx context.Context, filter string) error {
	_, err := s.api.Disks.AggregatedList(s.project).Filter(filter).MaxResults(1).Fields("id").Context(ctx).Do(partial)
	if err := done(ctx, verbList, "disks", "", err); err != nil {
		return err
	}
	_, err = s.api.Instances.AggregatedList(s.project).Filter(filter).MaxResults(1).Fields("id").Context(ctx).Do(partial)
	return done(ctx, verbList, "instances", "", err)
}

func reasonOf(ctx context.Context, err error) string {
	if _, ok := errors.AsType[*credentialsError](err); ok {
		return provider.CheckUnauthorized
	}
	answer, answered := errors.AsType[*googleapi.Error](err)
	_, unanswered := errors.AsType[*url.Error](err)
	switch {
	case answered && answer.Code == http.StatusUnauthorized:
		return provider.CheckUnauthorized
	case answered && answer.Code == http.StatusForbidden && errors.Is(classify(err).class, provider.ErrDenied):
		return provider.CheckForbidden
	case answered:
		return provider.CheckAPIError
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return provider.CheckTimeout
	case unanswered:
		return provider.CheckUnreachable
	}
	return provider.CheckAPIError // what came was not an answer of the API
}
