package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// TestTheProvidersFileIsFollowed edits it under a running operator.
func TestTheProvidersFileIsFollowed(t *testing.T) {
	t.Parallel()
	x := newCloudOnHost(t, 91)
	cloud, spare := x.entry("cloud", "project-a", ""), x.entry("spare", "project-b", "")
	x.publish(providersOf(cloud, spare))
	metrics := freeAddress(t)
	p := x.start("--gc-interval=10s", "--gc-min-age=1m", "--gc-allow-namespaced", "--metrics-bind-address", metrics, "--provider-check-interval=1h")
	x.create("used", "cloud")
	x.create("waiting", "late")
	until(t, "the first Proxy Ready", func() bool { return x.ready("used") })
	until(t, "the second one waits for its entry", func() bool { return strings.HasPrefix(x.provisioned("waiting"), "False ProviderNotConfigured") })
	until(t, "the entries shown", func() bool {
		return strings.HasPrefix(x.accepted("cloud"), "True ") && strings.HasPrefix(x.accepted("spare"), "True ")
	})
	used, calls := x.get("used").Status.ProviderID, x.calls()
	serves := func(when string) {
		t.Helper()
		if got := x.get("used").Status.ProviderID; !x.ready("used") || got != used {
			t.Errorf("%s: Ready %v, on record %s, before %s", when, x.ready("used"), got, used)
		}
	}

	// An edited project that is in use is refused, one that is not is taken.
	x.publish(providersOf(x.entry("cloud", "project-b", ""), x.entry("spare", "project-a", "  maxInstances: 7\n")))
	until(t, "the refusal shown", func() bool { return strings.HasPrefix(x.accepted("cloud"), "False InUse: ") })
	if got := x.accepted("cloud"); !strings.Contains(got, used+" is in use") || !strings.Contains(got, `"project-b"`) {
		t.Errorf("the refusal says %q", got)
	}
	if got := x.accepted("spare"); !strings.HasPrefix(got, "True ") {
		t.Errorf("the other entry: %q", got)
	}
	if log := p.log.String(); !strings.Contains(log, `"changed":["`+x.named("spare")+`"]`) || !strings.Contains(log, "its change is tried again") {
		t.Error("the log does not tell the two apart")
	}
	if got := scrape(t, metrics); sample(got, "proxy_operator_provider_config_refused_entries") != "1" ||
		sample(got, "proxy_operator_provider_config_last_reload_successful") != "0" {
		t.Error("the metrics do not show the refusal")
	}
	serves("refused")

	// What cannot be used leaves everything as it is.
	for _, spoiled := range []struct {
		what, want string
		publish    func()
	}{
		{"half a file", `line 3: provider "` + x.named("cloud") + `": type: "gc" is not known`, func() { x.publish("providers:\n- name: " + x.named("cloud") + "\n  type: gc") }},
		{"a file that cannot be built", `provider "` + x.named("worse") + `": gcp.project: "NO"`, func() { x.publish(providersOf(cloud, x.entry("worse", "NO", ""))) }},
		{"no file", "the file cannot be read", func() {
			if err := os.Remove(x.file()); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		spoiled.publish()
		for _, entry := range []string{"cloud", "spare"} {
			until(t, spoiled.what+" shown at "+entry, func() bool {
				return strings.HasPrefix(x.accepted(entry), "False ") && strings.Contains(x.accepted(entry), spoiled.want)
			})
		}
		serves(spoiled.what)
	}
	if err := os.Symlink("..data/providers.yaml", x.file()); err != nil {
		t.Fatal(err)
	}

	// An added entry releases who waited for it.
	x.publish(providersOf(cloud, x.entry("spare", "project-a", ""), x.entry("late", "project-a", "")))
	until(t, "everything accepted again", func() bool {
		return strings.HasPrefix(x.accepted("cloud"), "True ") && strings.HasPrefix(x.accepted("late"), "True ")
	})
	until(t, "the Proxy that waited Ready", func() bool { return x.ready("waiting") })
	calls++
	if got := x.calls(); got != calls {
		t.Errorf("%d calls that change something, want %d", got, calls)
	}
	serves("all accepted")

	// A removed entry leaves its Proxy as it is: served, probed, and untouched by the collector of its neighbour, which sees
	// the same project.
	x.publish(providersOf(x.entry("spare", "project-a", ""), x.entry("late", "project-a", "")))
	// Words alone are told once a minute.
	untilWithin(t, 80*time.Second, "the Proxy shown as unmanaged", func() bool { return strings.Contains(x.provisioned("used"), "unmanaged") })
	until(t, "the entry's health gone", func() bool {
		err := x.c.Get(t.Context(), client.ObjectKey{Name: x.named("cloud")}, &v1alpha1.ProviderHealth{})
		return client.IgnoreNotFound(err) == nil && err != nil
	})
	swept := sample(scrape(t, metrics), "proxy_operator_gc_last_sweep_timestamp_seconds")
	for range 2 {
		until(t, "another sweep", func() bool {
			now := sample(scrape(t, metrics), "proxy_operator_gc_last_sweep_timestamp_seconds")
			fresh := now != swept
			swept = now
			return fresh
		})
	}
	serves("unmanaged")
	if got := x.calls(); got != calls {
		t.Errorf("%d calls that change something, want %d", got, calls)
	}

	// Back with another project it would disown what is there; as it was, it goes on.
	x.publish(providersOf(x.entry("cloud", "project-b", ""), x.entry("spare", "project-a", "")))
	until(t, "the refusal in the log", func() bool {
		return strings.Contains(p.log.String(), `"provider":"`+x.named("cloud")+`","reason":"InUse"`) && strings.Contains(x.provisioned("used"), "unmanaged")
	})
	x.publish(providersOf(cloud, x.entry("spare", "project-a", ""), x.entry("late", "project-a", "")))
	untilWithin(t, 80*time.Second, "the Proxy managed again", func() bool { return !strings.Contains(x.provisioned("used"), "unmanaged") })
	x.remove("used")
	x.remove("waiting")
	until(t, "everything gone", func() bool {
		return len(x.emulator.Leftovers()) == 0 && x.get("used").Name == "" && x.get("waiting").Name == ""
	})
	if err := p.stop(t); err != nil {
		t.Error(err)
	}
}

// TestKilledDuringAReloadItLeaksNothing kills the operator with SIGKILL while a reload waits for a Create in flight.
func TestKilledDuringAReloadItLeaksNothing(t *testing.T) {
	t.Parallel()
	x := newCloudOnHost(t, 92)
	const insert = "instances.insert"
	before := providersOf(x.entry("cloud", "project-a", ""))
	for i, c := range []struct {
		what, change string
		hold         func() (<-chan struct{}, func())
		// keeps: the changed file is good for what is on record, so the next process gets it.
		keeps bool
	}{
		{"capped, before the effect", providersOf(x.entry("cloud", "project-a", "  maxInstances: 5\n")), func() (<-chan struct{}, func()) { return x.emulator.Hold(gcpemulator.On(insert)) }, true},
		{"capped, after the effect", providersOf(x.entry("cloud", "project-a", "  maxInstances: 6\n")), func() (<-chan struct{}, func()) { return x.emulator.HoldAnswer(gcpemulator.On(insert)) }, true},
		{"another project", providersOf(x.entry("cloud", "project-b", "")), func() (<-chan struct{}, func()) { return x.emulator.HoldAnswer(gcpemulator.On(insert)) }, false},
		{"removed", providersOf(), func() (<-chan struct{}, func()) { return x.emulator.HoldAnswer(gcpemulator.On(insert)) }, false},
	} {
		x.publish(before)
		reached, release := c.hold()
		p := x.start("--gc-interval=10s", "--gc-min-age=1m", "--gc-allow-namespaced")
		name := fmt.Sprintf("killed-%d", i)
		x.create(name, "cloud")
		select {
		case <-reached:
		case <-time.After(40 * time.Second):
			t.Fatalf("%s: no Create", c.what)
		}
		x.publish(c.change)
		// Once the entry is on its way out its instances are listed no more.
		lists, since := -1, time.Now()
		until(t, c.what+": the reload under way", func() bool {
			if n := x.emulator.Calls("instances.aggregatedList"); n != lists {
				lists, since = n, time.Now()
			}
			log := p.log.String()
			return strings.Contains(log, "its change is tried again") || strings.Contains(log, "was read again") || time.Since(since) > 3*time.Second
		})
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-p.ended
		release()
		if !c.keeps {
			x.publish(before)
		}
		next := x.start("--gc-interval=10s", "--gc-min-age=1m", "--gc-allow-namespaced")
		until(t, c.what+": Ready", func() bool { return x.ready(name) })
		if got := x.emulator.Leftovers(); len(got) != 2 { // a VM and its disk
			t.Errorf("%s: there are %v", c.what, got)
		}
		x.remove(name)
		until(t, c.what+": gone", func() bool { return x.get(name).Name == "" && len(x.emulator.Leftovers()) == 0 })
		if err := next.stop(t); err != nil {
			t.Error(err)
		}
	}
}
