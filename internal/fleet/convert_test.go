package fleet_test

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func condition(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "about " + kind, LastTransitionTime: metav1.NewTime(epoch)}
}

// running is a Managed Proxy as the API server stores it once its instance runs and was probed.
func running() *v1alpha1.Proxy {
	return &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: types.UID("u1"), Generation: 3},
		Spec: v1alpha1.ProxySpec{
			Mode: v1alpha1.ModeManaged, Provider: "cloud", Attributes: map[string]v1alpha1.AttributeValue{"country": "de"},
			MaxConcurrentLeases: ptr.To[int32](4),
		},
		Status: v1alpha1.ProxyStatus{
			Phase: v1alpha1.PhaseReady, ProviderID: "zones/a/instances/x", IP: "192.0.2.1", Port: 3128, ExitAddress: "198.51.100.1",
			Instance:      &v1alpha1.InstanceRecord{Attempt: 2, RequestedAt: metav1.NewMicroTime(epoch)},
			LatencyMillis: ptr.To[int64](12), LastHealthCheckTime: ptr.To(metav1.NewTime(epoch.Add(time.Minute))),
			Conditions: []metav1.Condition{
				condition(v1alpha1.ConditionProvisioned, metav1.ConditionTrue, v1alpha1.ReasonCreated),
				condition(v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonProbeSucceeded),
			},
		},
	}
}

func TestFromObjectTakesOverEverything(t *testing.T) {
	p := running()
	got := fleet.FromObject(p, nil)
	endpoint := fleet.Endpoint{Scheme: "http", Host: "192.0.2.1", Port: 3128}
	want := &fleet.Proxy{
		Key: name("a"), UID: "u1", Generation: 3, Mode: v1alpha1.ModeManaged, Provider: "cloud", ProviderID: "zones/a/instances/x",
		Attempt: 2, Endpoint: endpoint, ExitAddress: "198.51.100.1", Attributes: map[string]string{"country": "de"}, Cap: 4,
		Provisioned: true, Phase: v1alpha1.PhaseReady, Probe: p.Spec.Probe(), ObservedAt: epoch,
		Reported: fleet.Verdict{
			Subject: fleet.Subject{UID: "u1", Attempt: 2, Endpoint: endpoint}, Health: fleet.Healthy, Reason: v1alpha1.ReasonProbeSucceeded,
			Message: "about Healthy", Latency: 12 * time.Millisecond, At: epoch.Add(time.Minute),
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	p.Spec.Attributes["country"] = "fr"
	if got.Attributes["country"] != "de" {
		t.Error("the snapshot changes with the object it was made from")
	}
}

func TestFromObject(t *testing.T) {
	type object = v1alpha1.Proxy
	creds := &provider.Credentials{Username: "u", Password: "p", Revision: "r1"}
	auth := func(p *object) { p.Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "creds"}} }
	external := func(p *object) {
		p.Spec.Mode, p.Spec.Provider = v1alpha1.ModeExternal, ""
		p.Spec.Endpoint = &v1alpha1.Endpoint{Host: "proxy.example", Port: 8080}
		p.Status = v1alpha1.ProxyStatus{}
	}
	condition := func(kind string, status metav1.ConditionStatus, reason string) func(*object) {
		return func(p *object) {
			for i := range p.Status.Conditions {
				if c := &p.Status.Conditions[i]; c.Type == kind {
					c.Status, c.Reason = status, reason
				}
			}
		}
	}
	for _, tc := range []struct {
		name, reason string
		change       []func(*object)
		creds        *provider.Credentials
		want         func(*fleet.Proxy) bool
	}{
		{name: "no mode", reason: "what never passed the defaulting counts as Managed",
			change: []func(*object){func(p *object) { p.Spec.Mode = "" }},
			want:   func(p *fleet.Proxy) bool { return p.Mode == v1alpha1.ModeManaged && p.Attempt == 2 }},
		{name: "no attempt", reason: "an ID without a record names no instance",
			change: []func(*object){func(p *object) { p.Status.Instance = nil }},
			want:   func(p *fleet.Proxy) bool { return p.ProviderID == "" && p.Attempt == 0 }},
		{name: "no status", reason: "nothing is offered before anything is known",
			change: []func(*object){func(p *object) { p.Status = v1alpha1.ProxyStatus{} }},
			want: func(p *fleet.Proxy) bool {
				return !p.Provisioned && !p.Probeable() && p.ObservedAt.IsZero() && p.Reported.Health == fleet.HealthUnknown && p.Reported.Reason == ""
			}},
		{name: "no address", reason: "a running instance may have none yet",
			change: []func(*object){func(p *object) { p.Status.IP, p.Status.Port = "", 0 }},
			want:   func(p *fleet.Proxy) bool { return !p.Probeable() && p.Endpoint == fleet.Endpoint{Scheme: "http"} }},
		{name: "not provisioned", reason: "the condition decides",
			change: []func(*object){condition(v1alpha1.ConditionProvisioned, metav1.ConditionFalse, v1alpha1.ReasonDraining)},
			want:   func(p *fleet.Proxy) bool { return !p.Provisioned && p.Withheld() == fleet.WithheldUnavailable }},
		{name: "unknown provisioned", reason: "Unobserved is not True",
			change: []func(*object){condition(v1alpha1.ConditionProvisioned, metav1.ConditionUnknown, v1alpha1.ReasonUnobserved)},
			want:   func(p *fleet.Proxy) bool { return !p.Provisioned }},
		{name: "draining", reason: "drainingSince withdraws it",
			change: []func(*object){func(p *object) { p.Status.DrainingSince = ptr.To(metav1.NewMicroTime(epoch)) }},
			want:   func(p *fleet.Proxy) bool { return p.Draining && !p.Replacing && p.Probeable() }},
		{name: "replacing", reason: "it holds a place",
			change: []func(*object){func(p *object) { p.Status.ReplacingSince = ptr.To(metav1.NewMicroTime(epoch)) }},
			want:   func(p *fleet.Proxy) bool { return p.Replacing && !p.Draining }},
		{name: "deleting", reason: "the deletion timestamp alone counts",
			change: []func(*object){func(p *object) { p.DeletionTimestamp = ptr.To(metav1.NewTime(epoch)) }},
			want:   func(p *fleet.Proxy) bool { return p.Deleting && !p.Probeable() }},
		{name: "cordoned", reason: "probed, but offered to nobody new",
			change: []func(*object){func(p *object) { p.Spec.Cordoned = true }},
			want:   func(p *fleet.Proxy) bool { return p.Cordoned && p.Probeable() }},
		{name: "credentials", reason: "their revision is part of the subject", change: []func(*object){auth}, creds: creds,
			want: func(p *fleet.Proxy) bool {
				return p.Credentials == creds && !p.CredentialsMissing && p.Subject().CredentialRevision == "r1" && p.Reported.Subject == p.Subject()
			}},
		{name: "credentials missing", reason: "neither offered nor probed without them", change: []func(*object){auth},
			want: func(p *fleet.Proxy) bool { return p.CredentialsMissing && p.Credentials == nil && !p.Probeable() }},
		{name: "credentials nobody asked for", reason: "the spec names none", creds: creds,
			want: func(p *fleet.Proxy) bool { return p.Credentials == nil && !p.CredentialsMissing }},
		{name: "unhealthy", reason: "for seeding",
			change: []func(*object){condition(v1alpha1.ConditionHealthy, metav1.ConditionFalse, v1alpha1.ReasonTimeout)},
			want: func(p *fleet.Proxy) bool {
				return p.Reported.Health == fleet.Unhealthy && p.Reported.Reason == v1alpha1.ReasonTimeout
			}},
		{name: "held while healthy", reason: "it stands as it was",
			change: []func(*object){condition(v1alpha1.ConditionHealthy, metav1.ConditionUnknown, v1alpha1.ReasonSharedCauseSuspected)},
			want:   func(p *fleet.Proxy) bool { return p.Reported.Held && p.Reported.Health == fleet.Healthy }},
		{name: "held without ever having been healthy", reason: "nothing was known of it",
			change: []func(*object){
				condition(v1alpha1.ConditionHealthy, metav1.ConditionUnknown, v1alpha1.ReasonSharedCauseSuspected),
				func(p *object) { p.Status.LatencyMillis = nil },
			},
			want: func(p *fleet.Proxy) bool { return p.Reported.Held && p.Reported.Health == fleet.HealthUnknown }},
		{name: "external", reason: "its spec is all there is", change: []func(*object){external},
			want: func(p *fleet.Proxy) bool {
				return p.Mode == v1alpha1.ModeExternal && p.Provider == "" && p.ProviderID == "" && p.Attempt == 0 && p.Provisioned &&
					p.Endpoint == fleet.Endpoint{Scheme: "http", Host: "proxy.example", Port: 8080} &&
					p.LeaseKey() == fleet.LeaseKey{UID: "u1", Endpoint: p.Endpoint}
			}},
		{name: "external with the status of an older endpoint", reason: "what was reported is about that one", change: []func(*object){
			func(p *object) { st := p.Status; external(p); p.Status = st },
		}, want: func(p *fleet.Proxy) bool {
			return p.Endpoint.Host == "proxy.example" && p.Reported.Health == fleet.Healthy && p.Reported.Subject != p.Subject() &&
				p.Reported.Subject.Endpoint == fleet.Endpoint{Scheme: "http", Host: "192.0.2.1", Port: 3128}
		}},
		{name: "external as reported", reason: "the status speaks of this endpoint", change: []func(*object){
			func(p *object) {
				st := p.Status
				external(p)
				p.Status = st
				p.Status.IP, p.Status.Port = "proxy.example", 8080
			},
		}, want: func(p *fleet.Proxy) bool { return p.Reported.Subject == p.Subject() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := running()
			for _, f := range tc.change {
				f(p)
			}
			if got := fleet.FromObject(p, tc.creds); !tc.want(got) {
				t.Errorf("%s: %+v", tc.reason, got)
			}
		})
	}
}

func TestLeasesOutliveRotationAndEndWithTheInstance(t *testing.T) {
	p := running()
	before := fleet.FromObject(p, nil)
	p.Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "creds"}}
	rotated := fleet.FromObject(p, &provider.Credentials{Username: "u", Password: "p", Revision: "r2"})
	if rotated.LeaseKey() != before.LeaseKey() || rotated.Subject() == before.Subject() {
		t.Errorf("a rotation leaves the lease key %v (before %v) and the subject %v", rotated.LeaseKey(), before.LeaseKey(), rotated.Subject())
	}
	p.Status.Instance.Attempt++
	if next := fleet.FromObject(p, nil); next.LeaseKey() == before.LeaseKey() {
		t.Errorf("a new instance inherits the lease key %v", next.LeaseKey())
	}
}

func TestEndpointText(t *testing.T) {
	for host, want := range map[string]string{"192.0.2.1": "http://192.0.2.1:80", "2001:db8::1": "http://[2001:db8::1]:80", "a.test": "http://a.test:80"} {
		if got := (fleet.Endpoint{Scheme: "http", Host: host, Port: 80}).URL(); got != want {
			t.Errorf("URL of %s: %s, want %s", host, got, want)
		}
	}
}

func TestWhyAProxyIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.Proxy)
		want   string
	}{
		"not provisioned": {func(*v1alpha1.Proxy) {}, v1alpha1.ReasonQuotaExceeded},
		"provisioned":     {func(p *v1alpha1.Proxy) { p.Status.Conditions[0].Status = metav1.ConditionTrue }, ""},
		"no pass yet":     {func(p *v1alpha1.Proxy) { p.Status.Conditions = nil }, ""},
		"External":        {func(p *v1alpha1.Proxy) { p.Spec.Mode = v1alpha1.ModeExternal }, ""},
	} {
		p := &v1alpha1.Proxy{Spec: v1alpha1.ProxySpec{Mode: v1alpha1.ModeManaged, Provider: "cloud"}}
		p.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionProvisioned, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonQuotaExceeded,
		}}
		c.change(p)
		if got := fleet.FromObject(p, nil).Missing; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
