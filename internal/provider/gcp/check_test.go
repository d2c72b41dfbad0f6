package gcp_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/gcp"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// checked makes the check twice and returns what both say.
func checked(ctx context.Context, t *testing.T, p *gcp.Provider) provider.TargetStatus {
	t.Helper()
	var last []provider.TargetStatus
	for range 2 {
		got := p.Check(ctx)
		if len(got) != 1 || got[0].Latency <= 0 {
			t.Fatalf("the check says %+v", got)
		}
		got[0].Latency = 0
		if last != nil && !reflect.DeepEqual(got, last) {
			t.Errorf("the check says\n%+v\nand then\n%+v", last, got)
		}
		last = got
	}
	s := last[0]
	if s.Target != "project-a" || s.Target != p.Target(provider.Ref{}) || s.Ready != (s.Reason == provider.CheckReachable) || s.Ready != (s.Message == "") || len(s.Message) > 512 {
		t.Errorf("the check says %+v", s)
	}
	return s
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	for _, tc := range []struct {
		name   string
		fault  gcpemulator.Fault
		reason string
		says   string
	}{
		{"401", gcpemulator.Fault{Status: 401, Message: "Request had invalid authentication credentials."}, provider.CheckUnauthorized, "invalid authentication"},
		{"403", gcpemulator.Fault{Status: 403, Message: "Required 'compute.instances.list' permission for 'projects/project-a'"}, provider.CheckForbidden, "compute.instances.list"},
		{"the API is off", gcpemulator.Fault{Status: 403, Reason: "accessNotConfigured"}, provider.CheckForbidden, "accessNotConfigured"},
		{"too fast", gcpemulator.Fault{Status: 403, Reason: "rateLimitExceeded"}, provider.CheckAPIError, "rateLimitExceeded"},
		{"429", gcpemulator.Fault{Status: 429}, provider.CheckAPIError, "429"},
		{"404", gcpemulator.Fault{Status: 404, Message: "The resource 'projects/project-a' was not found"}, provider.CheckAPIError, "projects/project-a"},
		{"500", gcpemulator.Fault{Status: 500}, provider.CheckAPIError, "500"},
		{"a page", gcpemulator.Fault{Status: 502, HTML: true}, provider.CheckAPIError, "502 Bad Gateway"},
		{"a page with 200", gcpemulator.Fault{Status: 200, HTML: true}, provider.CheckAPIError, "invalid character"},
		{"a reset", gcpemulator.Fault{Reset: true}, provider.CheckUnreachable, ""},
		{"secrets", gcpemulator.Fault{Status: 403, Message: strings.Repeat("Bearer ya29.sentinel-sentinel refused, see https://u:sentinel@host/?sig=sentinel, ", 20)}, provider.CheckForbidden, "refused, see"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newT(t, gcpemulator.Options{})
			w.emulator.Inject(gcpemulator.Match{}, tc.fault)
			s := checked(t.Context(), t, w.provider())
			if s.Reason != tc.reason || !strings.Contains(s.Message, tc.says) || strings.Contains(s.Message, "sentinel") {
				t.Errorf("it is %s, %q, want %s, %q", s.Reason, s.Message, tc.reason, tc.says)
			}
		})
	}
}

func TestCheckOfAnAPIThatIsNotThere(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	must(w.t, w.emulator.Close())
	if s := checked(t.Context(), t, p); s.Reason != provider.CheckUnreachable || !strings.Contains(s.Message, "refused") {
		t.Errorf("the check says %+v", s)
	}
}

// A zone that cannot be reached is not the project.
func TestCheckOfAProjectWithAZoneDown(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	w.emulator.SetUnreachable("project-a", "us-central1-a", gcpemulator.ScopeFails)
	if s := checked(t.Context(), t, w.provider()); !s.Ready {
		t.Errorf("the check says %+v", s)
	}
}

func TestCheckEndsWithItsContext(t *testing.T) {
	for _, bound := range []string{"before", "deadline", "cancellation", "call timeout"} {
		for call, reason := range map[string]string{"instances.aggregatedList": provider.CheckTimeout, "regions.list": provider.CheckReachable} {
			if bound == "before" && call == "regions.list" {
				continue
			}
			t.Run(call+" by "+bound, func(t *testing.T) {
				w := newT(t, gcpemulator.Options{})
				w.extra = "regions: [us-central1]\n"
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f := gcpemulator.Fault{Hang: true}
				switch bound {
				case "before":
					cancel()
				case "deadline":
					ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
					defer cancel()
				case "call timeout":
					w.window.CallTimeout = 200 * time.Millisecond
				default:
					f.OnCall = cancel
				}
				p := w.provider()
				if call == "regions.list" { // a list spares the check a call that might take all of the time there is
					w.until(t, "a list", func() bool { _, err := p.ListByTag(t.Context()); return err == nil })
				}
				w.emulator.Inject(gcpemulator.On(call), f)
				began := time.Now()
				got := p.Check(ctx)
				if d := time.Since(began); d > 10*time.Second {
					t.Errorf("it took %s", d)
				}
				if len(got) != 1 || got[0].Reason != reason || len(got[0].Details) > 0 {
					t.Errorf("the check says %+v, want %s", got, reason)
				}
			})
		}
	}
}

// Checks do not wait for each other's calls.
func TestChecksSideBySide(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	w.extra = "regions: [us-central1]\n"
	p := w.provider()
	reached, release := w.emulator.Hold(gcpemulator.On("regions.list"))
	done := make(chan []provider.TargetStatus)
	go func() { done <- p.Check(t.Context()) }()
	<-reached
	if s := p.Check(t.Context()); !s[0].Ready {
		t.Errorf("the check says %+v", s)
	}
	release()
	if s := <-done; !s[0].Ready || len(s[0].Details) != 1 {
		t.Errorf("the first check says %+v", s)
	}
}
