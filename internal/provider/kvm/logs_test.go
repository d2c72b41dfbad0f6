package kvm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/digitalocean/go-libvirt"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
)

// logs are lines in JSON.
type logs struct {
	t     *testing.T
	limit int // verbosity, 10 for 0
	mu    sync.Mutex
	lines []map[string]any
}

func (l *logs) into(ctx context.Context) context.Context {
	verbosity := l.limit
	if verbosity == 0 {
		verbosity = 10
	}
	return logr.NewContext(ctx, funcr.NewJSON(l.take, funcr.Options{Verbosity: verbosity}).WithValues("controller", "proxy", "namespace", "ns", "name", "exit", "reconcileID", "r"))
}

// take parses a line, and fails if it has a key twice or shows what is secret.
func (l *logs) take(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
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
	never := w.old(w.ref(w.secret(), 1))
	_, name := w.daemon(never.ID)
	lookups := []string{"libvirt call DomainLookupByName", "libvirt call DomainGetMetadata", "libvirt call DomainGetState"}
	for _, step := range []struct {
		reason   string
		prepare  func()
		op       string
		id, name string
		do       func(context.Context) error
		first    []string // of V(1): message, class, call
		more     []string // of V(2): message, call, absent, state, count; nil for any
	}{
		{"a plan", nil, "plan", "", req.Name, func(ctx context.Context) error { _, err := w.p.Plan(ctx, req); return err }, []string{"call succeeded ok"}, nil},
		{"a creation that is refused", func() {
			w.wires[hostA].Once(libvirttest.On("DomainDefineXMLFlags"), fails(libvirt.ErrConfigUnsupported))
		}, "create", ref.ID, req.Name, func(ctx context.Context) error { return w.p.Create(ctx, req, ref) }, []string{
			"libvirt call failed DomainDefineXMLFlags", "call failed permanent",
		}, nil},
		{"a creation", nil, "create", ref.ID, req.Name, func(ctx context.Context) error { return w.p.Create(ctx, req, ref) }, []string{"call succeeded ok"}, nil},
		{
			"the same once more", nil, "create", ref.ID, req.Name,
			func(ctx context.Context) error { return w.p.Create(ctx, req, ref) },
			[]string{"call succeeded ok"},
			append(lookups[:3:3], "the domain is there already"),
		},
		{
			"a look", func() { w.daemons[hostA].Boot() }, "get", ref.ID, req.Name,
			func(ctx context.Context) error { _, err := w.p.Get(ctx, ref); return err },
			[]string{"call succeeded ok"},
			append(lookups[:3:3], "libvirt call NetworkGetDhcpLeases", "instance Running"),
		},
		{
			"a look at what never was", nil, "get", never.ID, name,
			func(ctx context.Context) error { _, err := w.p.Get(ctx, never); return err },
			[]string{"call failed not_found"},
			[]string{"libvirt call DomainLookupByName true", "libvirt call DomainLookupByUUID true", "libvirt call StoragePoolLookupByName", "libvirt call StoragePoolListAllVolumes"},
		},
		{
			"a list", nil, "list", "", "",
			func(ctx context.Context) error { _, err := w.p.ListByTag(ctx); return err },
			[]string{"call succeeded ok"},
			[]string{"libvirt call StoragePoolLookupByName", "libvirt call StoragePoolListAllVolumes", "libvirt call ConnectListAllDomains", lookups[1], lookups[2], "libvirt call NetworkGetDhcpLeases", "instances 1"},
		},
		{"a removal", nil, "delete", ref.ID, req.Name, func(ctx context.Context) error { return w.p.Delete(ctx, ref) }, []string{"call succeeded ok"}, nil},
	} {
		t.Run(step.reason, func(t *testing.T) {
			if step.prepare != nil {
				step.prepare()
			}
			l := &logs{t: t}
			_ = step.do(l.into(w.ctx))
			if got := l.at(1, "msg", "class", "call"); !slices.Equal(got, step.first) {
				t.Errorf("V(1): %q, want %q", got, step.first)
			}
			more := l.at(2, "msg", "call", "state", "count")
			for i, line := range l.at(2, "absent") {
				if line == "true" {
					more[i] += " true"
				}
			}
			if step.more != nil && !slices.Equal(more, step.more) || len(more) == 0 || len(l.lines) != len(more)+len(step.first) {
				t.Errorf("V(2): %q, want %q", more, step.more)
			}
			for _, line := range l.lines {
				id, _ := line["id"].(string)
				if line["logger"] != kvm.Type || line["provider"] != entry || line["op"] != step.op || id != step.id || line["reconcileID"] != "r" {
					t.Errorf("line %v, want it to say which call it is about", line)
				}
				host, hasHost := line["host"].(string)
				name, hasName := line["domain"].(string)
				// What is about all hosts, or all domains, names none.
				ofAll := step.op == "list"
				if !hasHost || !hasName || !ofAll && (host != hostA || name != step.name) || line["call"] != nil && host != hostA {
					t.Errorf("line %v, want the host and %s", line, step.name)
				}
				// A plan has no span of its own.
				if (step.op != "plan" || line["call"] != nil) && (line["traceID"] == nil || line["spanID"] == nil) {
					t.Errorf("line %v, want the IDs of a span", line)
				}
			}
		})
	}
}

// Lines about one domain of a list name it.
func TestLinesOfAListNameDomains(t *testing.T) {
	w := newT(t)
	p := w.provider()
	a, b := w.on(p, hostA), w.on(p, hostB)
	l := &logs{t: t}
	_, err := p.ListByTag(l.into(t.Context()))
	must(w.t, err)
	for _, ref := range []provider.Ref{a, b} {
		n := 0
		for _, line := range l.lines {
			if fmt.Sprintf("hosts/%s/domains/%s", line["host"], line["domain"]) == ref.ID {
				n++
			}
		}
		if n != 3 {
			t.Errorf("%d lines name %s", n, ref.ID)
		}
	}
}

// Nothing is prepared for lines that nobody reads.
func TestVerbosityDecidesWhatIsWritten(t *testing.T) {
	for limit, want := range map[int]int{1: 1, 2: 6} {
		w := newT(t)
		p := w.provider()
		_, ref := w.made(p)
		l := &logs{t: t, limit: limit}
		_, err := p.Get(l.into(t.Context()), ref)
		must(w.t, err)
		if len(l.lines) != want {
			t.Errorf("at %d: %d lines, want %d", limit, len(l.lines), want)
		}
	}
}

// Two callers have two loggers, and the provider keeps neither.
func TestLinesGoToTheCallersLogger(t *testing.T) {
	w := newT(t)
	p := w.provider()
	w.made(p) // which connects
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
	w.dial = func(_ context.Context, host string) (net.Conn, error) {
		if host == hostB {
			return nil, &dial.Error{Reason: dial.HostKeyMismatch, Err: errors.New("another key")}
		}
		return w.daemons[host].Dial()
	}
	l := &logs{t: t}
	w.provider().Check(l.into(t.Context()))
	want := []string{"kvm hypervisors check hv-b libvirt call failed dial", "kvm hypervisors check hv-b libvirt call failed ConnectGetLibVersion", "kvm hypervisors check hv-b host not ready HostKeyMismatch"}
	if got := l.at(1, "logger", "provider", "op", "host", "msg", "call", "reason"); !slices.Equal(got, want) {
		t.Errorf("V(1): %q, want %q", got, want)
	}
	for _, line := range l.lines {
		if _, ok := line["domain"]; !ok || line["host"] == "" || line["host"] == nil {
			t.Errorf("line %v has no host and name", line)
		}
	}
}
