package gcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/gcp"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// logs are lines in JSON, written with a logger such as the reconciler's.
type logs struct {
	t     *testing.T
	limit int // verbosity, 10 for 0
	mu    sync.Mutex
	lines []map[string]any
	text  []string
}

func (l *logs) into(ctx context.Context) context.Context {
	verbosity := l.limit
	if verbosity == 0 {
		verbosity = 10
	}
	log := funcr.NewJSON(l.take, funcr.Options{Verbosity: verbosity})
	return logr.NewContext(ctx, log.WithValues("controller", "proxy", "namespace", "ns", "name", "exit", "reconcileID", "r"))
}

// take parses a line, and fails if it has a key twice or shows what is secret.
func (l *logs) take(line string) {
	got := map[string]any{}
	d := json.NewDecoder(strings.NewReader(line))
	if _, err := d.Token(); err != nil {
		l.t.Error(err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			l.t.Errorf("%v in %s", err, line)
			return
		}
		var value any
		if err := d.Decode(&value); err != nil {
			l.t.Errorf("%v in %s", err, line)
			return
		}
		if _, twice := got[fmt.Sprint(key)]; twice {
			l.t.Errorf("key %s is repeated in %s", key, line)
		}
		got[fmt.Sprint(key)] = value
	}
	if hidden.MatchString(line) {
		l.t.Errorf("the line shows too much: %s", line)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines, l.text = append(l.lines, got), append(l.text, line)
}

// at returns the lines of a level, each as the values of keys, less what is empty.
func (l *logs) at(level int, keys ...string) (out []string) {
	for _, line := range l.lines {
		if line["level"] != float64(level) {
			continue
		}
		var values []string
		for _, key := range keys {
			if v := fmt.Sprint(line[key]); line[key] != nil && v != "" {
				values = append(values, v)
			}
		}
		out = append(out, strings.Join(values, " "))
	}
	return out
}

func TestLogsOfACall(t *testing.T) {
	w := newTraced(t)
	req := w.secret()
	ref := w.ref(req, 1)
	never := w.ref(w.request(), 1)
	never.RequestedAt = never.RequestedAt.Add(-past)
	full := func() {
		w.emulator.InjectOnce(gcpemulator.On("instances.insert"), gcpemulator.Fault{Status: 403, Reason: "quotaExceeded", Message: "Quota 'CPUS' exceeded."})
	}
	for _, step := range []struct {
		reason  string
		prepare func()
		op, id  string
		do      func(context.Context) error
		first   []string // of V(1): message, class, verb, resource
		more    []string // of V(2): message, verb, resource, absent, state, count
	}{
		{"a creation without room", full, "create", ref.ID, func(ctx context.Context) error { return w.p.Create(ctx, req, ref) },
			[]string{"API call failed quota_exceeded insert instances", "call failed quota_exceeded"},
			[]string{"API call get instances true", "API call get disks true"}},
		{"a creation", nil, "create", ref.ID, func(ctx context.Context) error { return w.p.Create(ctx, req, ref) },
			[]string{"call succeeded ok"}, []string{"API call get instances true", "API call get disks true", "API call insert instances"}},
		{"a look", nil, "get", ref.ID, func(ctx context.Context) error { _, err := w.p.Get(ctx, ref); return err },
			[]string{"call succeeded ok"}, []string{"API call get instances", "instance Running"}},
		{"a look at what never was", nil, "get", never.ID, func(ctx context.Context) error { _, err := w.p.Get(ctx, never); return err },
			[]string{"call failed not_found"},
			[]string{"API call get instances true", "API call list zoneOperations", "API call get instances true", "API call get disks true"}},
		{"a list", nil, "list", "", func(ctx context.Context) error { _, err := w.p.ListByTag(ctx); return err },
			[]string{"call succeeded ok"}, []string{"API call list disks", "API call list instances", "instances 1"}},
		{"a removal", nil, "delete", ref.ID, func(ctx context.Context) error { return w.p.Delete(ctx, ref) },
			[]string{"call succeeded ok"}, []string{"API call get instances", "API call list zoneOperations", "API call delete instances"}},
	} {
		t.Run(step.reason, func(t *testing.T) {
			if step.prepare != nil {
				step.prepare()
			}
			l := &logs{t: t}
			_ = step.do(l.into(w.ctx))
			if got := l.at(1, "msg", "class", "verb", "resource"); !slices.Equal(got, step.first) {
				t.Errorf("V(1): %q, want %q", got, step.first)
			}
			if got := l.at(2, "msg", "verb", "resource", "absent", "state", "count"); !slices.Equal(got, step.more) {
				t.Errorf("V(2): %q, want %q", got, step.more)
			}
			// Of each request two lines, with what was asked and answered but for the bodies.
			if got := l.at(5, "body"); len(got) == 0 || len(got)%2 != 0 || strings.Join(got, "") != "" || len(l.lines) != len(got)+len(step.first)+len(step.more) {
				t.Errorf("V(5): %d of %d lines, %q", len(got), len(l.lines), got)
			}
			span := w.rec.Ended()[len(w.rec.Ended())-1]
			for _, line := range l.lines {
				id, _ := line["id"].(string)
				if line["logger"] != gcp.Type || line["provider"] != entry || line["op"] != step.op || id != step.id || line["reconcileID"] != "r" {
					t.Errorf("line %v, want it to say which call it is about", line)
				}
				// Metadata is not even asked for.
				if query, _ := line["query"].(string); line["msg"] == "request" && (!strings.Contains(query, "fields=") || strings.Contains(query, "metadata")) {
					t.Errorf("what was asked for is %q", query)
				}
				if line["traceID"] != span.SpanContext().TraceID().String() || line["spanID"] == nil {
					t.Errorf("line %v, want the IDs of the call's span", line)
				}
			}
		})
	}
}

// Nothing is prepared for lines that nobody reads.
func TestVerbosityDecidesWhatIsWritten(t *testing.T) {
	for _, limit := range []int{1, 2, 4} {
		w := newT(t, gcpemulator.Options{})
		w.settings.LogPayloads = true
		p := w.provider()
		ref, _ := w.create(p)
		l := &logs{t: t, limit: limit}
		_, err := p.Get(l.into(t.Context()), ref)
		must(w.t, err)
		if one, two := len(l.at(1)), len(l.at(2)); one != 1 || (two == 2) != (limit > 1) || len(l.lines) != one+two {
			t.Errorf("at %d: %q", limit, l.text)
		}
	}
}

// Two callers have two loggers, and the provider keeps neither.
func TestLinesGoToTheCallersLogger(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	one, other := &logs{t: t}, &logs{t: t}
	ref := w.ref(w.request(), 1)
	_, _ = p.Get(one.into(t.Context()), ref)
	n := len(one.lines)
	_, _ = p.Get(other.into(t.Context()), ref)
	if n == 0 || len(one.lines) != n || len(other.lines) != n {
		t.Errorf("%d lines, then %d and %d", n, len(one.lines), len(other.lines))
	}
}

func TestLinesOfAChecksFailure(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	w.emulator.Inject(gcpemulator.On("instances.aggregatedList"), gcpemulator.Fault{Status: 403})
	l := &logs{t: t}
	s := w.provider().Check(l.into(t.Context()))[0]
	if got, want := l.at(1, "logger", "provider", "op", "msg", "class", "verb", "resource"), "gcp "+entry+" check API call failed denied list instances"; s.Ready || !slices.Equal(got, []string{want}) {
		t.Errorf("V(1): %q, want %q", got, want)
	}
}
