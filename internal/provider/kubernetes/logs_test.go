package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kubernetes"
)

// logs are lines in JSON, written with a logger such as the reconciler's.
type logs struct {
	t     *testing.T
	lines []map[string]any
}

func (l *logs) into(ctx context.Context) context.Context {
	log := funcr.NewJSON(l.take, funcr.Options{Verbosity: 10})
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
	l.lines = append(l.lines, got)
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
	full := func() {
		w.wire.add(&fault{match: on(http.MethodPost, "pods"), once: true, do: refuse(http.StatusForbidden, "Forbidden", "exceeded quota: full", nil)})
	}
	for _, step := range []struct {
		reason  string
		prepare func()
		op, id  string
		do      func(context.Context) error
		first   []string // of V(1): message, class, verb, resource
		more    []string // of V(2): message, verb, resource, absent, state, count
	}{
		{
			reason: "a creation without room", prepare: full, op: "create", id: ref.ID,
			do: func(ctx context.Context) error { return w.p.Create(ctx, req, ref) },
			first: []string{
				"API call failed quota_exceeded create pods", "call failed quota_exceeded",
			},
			more: []string{"API call get pods true", "API call get secrets true", "API call create secrets", "API call delete secrets"},
		},
		{
			reason: "a creation", op: "create", id: ref.ID,
			do:    func(ctx context.Context) error { return w.p.Create(ctx, req, ref) },
			first: []string{"call succeeded ok"},
			more:  []string{"API call get pods true", "API call get secrets true", "API call create secrets", "API call create pods"},
		},
		{
			reason: "the same once more", op: "create", id: ref.ID,
			do:    func(ctx context.Context) error { return w.p.Create(ctx, req, ref) },
			first: []string{"call succeeded ok"},
			more:  []string{"API call get pods", "API call get secrets", "the Pod is there already"},
		},
		{
			reason: "a look", op: "get", id: ref.ID,
			do:    func(ctx context.Context) error { _, err := w.p.Get(ctx, ref); return err },
			first: []string{"call succeeded ok"}, more: []string{"API call get pods", "instance Provisioning"},
		},
		{
			reason: "a look at what never was", op: "get", id: w.namespace + "/" + provider.NameFromUID("x"),
			do: func(ctx context.Context) error {
				_, err := w.p.Get(ctx, w.old(provider.Ref{ID: w.namespace + "/" + provider.NameFromUID("x"), UID: "x", Attempt: 1}))
				return err
			},
			first: []string{"call failed not_found"},
			more:  []string{"API call get pods true", "API call get secrets true", "API call get namespaces"},
		},
		{
			reason: "a list", op: "list",
			do:    func(ctx context.Context) error { _, err := w.p.ListByTag(ctx); return err },
			first: []string{"call succeeded ok"},
			more:  []string{"API call list secrets", "API call list pods", "API call list secrets", "API call list pods", "instances 1"},
		},
		{
			reason: "a removal", op: "delete", id: ref.ID,
			do:    func(ctx context.Context) error { return w.p.Delete(ctx, ref) },
			first: []string{"call succeeded ok"},
			more:  []string{"API call get pods", "API call get secrets", "API call delete pods", "API call delete secrets"},
		},
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
			if n := len(step.first) + len(step.more); len(l.lines) != n {
				t.Errorf("%d lines, want %d", len(l.lines), n)
			}
			span := w.rec.Ended()[len(w.rec.Ended())-1]
			for _, line := range l.lines {
				id, _ := line["id"].(string)
				if line["logger"] != kubernetes.Type || line["provider"] != entry || line["op"] != step.op || id != step.id || line["reconcileID"] != "r" {
					t.Errorf("line %v, want it to say which call it is about", line)
				}
				if line["traceID"] != span.SpanContext().TraceID().String() || line["spanID"] != span.SpanContext().SpanID().String() {
					t.Errorf("line %v, want the IDs of the call's span", line)
				}
			}
		})
	}
}

// Two callers have two loggers, and the provider keeps neither.
func TestLinesGoToTheCallersLogger(t *testing.T) {
	w := newT(t)
	p := w.provider()
	one, other := &logs{t: t}, &logs{t: t}
	ref := w.old(w.ref(w.request(), 1))
	_, _ = p.Get(one.into(t.Context()), ref)
	n := len(one.lines)
	_, _ = p.Get(other.into(t.Context()), ref)
	if n == 0 || len(one.lines) != n || len(other.lines) != n {
		t.Errorf("%d lines, then %d and %d", n, len(one.lines), len(other.lines))
	}
	if _, ok := one.lines[0]["traceID"]; ok {
		t.Errorf("line %v is of a trace that there is not", one.lines[0])
	}
}

func TestLinesOfAChecksFailure(t *testing.T) {
	w := newT(t)
	w.wire.add(&fault{match: on(http.MethodGet, "secrets"), do: refuse(http.StatusForbidden, "Forbidden", "no", nil)})
	l := &logs{t: t}
	if s := w.provider().Check(l.into(t.Context())); s[0].Ready {
		t.Fatalf("%+v, want it not ready", s)
	}
	if got, want := l.at(1, "logger", "provider", "op", "msg", "class", "verb", "resource"), "kubernetes "+entry+" check API call failed denied list secrets"; !slices.Equal(got, []string{want}) {
		t.Errorf("V(1): %q, want %q", got, want)
	}
}

// A watch ends only with its context, so its line has to be waited for.
func TestLinesOfAWatchsFailure(t *testing.T) {
	w := newT(t)
	w.extra += "namespace: " + w.namespace + "\n"
	w.wire.add(&fault{match: on(http.MethodGet, "pods"), do: refuse(http.StatusForbidden, "Forbidden", "no", nil)})
	ctx, cancel := context.WithCancel(t.Context())
	l := &logs{t: t}
	log := funcr.NewJSON(func(line string) {
		l.take(line)
		if len(l.lines) == 2 {
			cancel()
		}
	}, funcr.Options{Verbosity: 1})
	w.provider().Watch(logr.NewContext(ctx, log), func(provider.Change) {})
	want := []string{
		"kubernetes " + entry + " watch API call failed denied list pods",
		"kubernetes " + entry + " watch the watch of Pods ended denied",
	}
	if got := l.at(1, "logger", "provider", "op", "msg", "class", "verb", "resource"); !slices.Equal(got, want) {
		t.Errorf("V(1): %q, want %q", got, want)
	}
}
