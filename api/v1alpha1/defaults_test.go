package v1alpha1_test

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

func TestProbeDefaults(t *testing.T) {
	defaults := v1alpha1.Probe{
		URL: "https://www.gstatic.com/generate_204", ExpectedStatus: 204, Interval: 30 * time.Second, Timeout: 10 * time.Second,
		SuccessThreshold: 1, FailureThreshold: 3,
	}
	with := func(change func(*v1alpha1.Probe)) v1alpha1.Probe {
		p := defaults
		change(&p)
		return p
	}
	for _, tc := range []struct {
		name   string
		reason string
		hc     *v1alpha1.HealthCheck
		want   v1alpha1.Probe
	}{
		{name: "absent", reason: "all defaults", want: defaults},
		{name: "empty", reason: "all defaults", hc: &v1alpha1.HealthCheck{}, want: defaults},
		{name: "another url", reason: "nobody knows its one right answer", hc: &v1alpha1.HealthCheck{URL: "https://example.com/"},
			want: with(func(p *v1alpha1.Probe) { p.URL, p.ExpectedStatus = "https://example.com/", 0 })},
		{name: "another url and status", reason: "as asked", hc: &v1alpha1.HealthCheck{URL: "https://example.com/", ExpectedStatus: ptr.To[int32](301)},
			want: with(func(p *v1alpha1.Probe) { p.URL, p.ExpectedStatus = "https://example.com/", 301 })},
		{name: "the default url spelt out", reason: "its right answer is known", hc: &v1alpha1.HealthCheck{URL: v1alpha1.DefaultProbeURL}, want: defaults},
		{name: "the default url in other letters", reason: "scheme and host have no case", hc: &v1alpha1.HealthCheck{URL: "HTTPS://www.gstatic.com/generate_204"},
			want: with(func(p *v1alpha1.Probe) { p.URL = "HTTPS://www.gstatic.com/generate_204" })},
		{name: "the default url and another status", reason: "as asked", hc: &v1alpha1.HealthCheck{ExpectedStatus: ptr.To[int32](200)},
			want: with(func(p *v1alpha1.Probe) { p.ExpectedStatus = 200 })},
		{name: "short interval", reason: "the timeout follows it down", hc: &v1alpha1.HealthCheck{Interval: v1alpha1.NewDuration(2 * time.Second)},
			want: with(func(p *v1alpha1.Probe) { p.Interval, p.Timeout = 2*time.Second, 2*time.Second })},
		{name: "long interval", reason: "the timeout stays", hc: &v1alpha1.HealthCheck{Interval: v1alpha1.NewDuration(time.Hour)},
			want: with(func(p *v1alpha1.Probe) { p.Interval = time.Hour })},
		{name: "timeout", reason: "as asked", hc: &v1alpha1.HealthCheck{Timeout: v1alpha1.NewDuration(30 * time.Second)},
			want: with(func(p *v1alpha1.Probe) { p.Timeout = 30 * time.Second })},
		{name: "thresholds", reason: "as asked", hc: &v1alpha1.HealthCheck{SuccessThreshold: ptr.To[int32](2), FailureThreshold: ptr.To[int32](5)},
			want: with(func(p *v1alpha1.Probe) { p.SuccessThreshold, p.FailureThreshold = 2, 5 })},
		{name: "empty tls", reason: "no adjustment", hc: &v1alpha1.HealthCheck{TLS: &v1alpha1.HealthCheckTLS{}}, want: defaults},
		{name: "tls", reason: "as asked", hc: &v1alpha1.HealthCheck{TLS: &v1alpha1.HealthCheckTLS{CABundle: []byte("pem"), InsecureSkipVerify: true}},
			want: with(func(p *v1alpha1.Probe) { p.CABundle, p.InsecureSkipVerify = []byte("pem"), true })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := v1alpha1.ProxySpec{HealthCheck: tc.hc}
			before := spec.DeepCopy()
			if got := spec.Probe(); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("%s: Probe() = %+v, want %+v", tc.reason, got, tc.want)
			}
			if !reflect.DeepEqual(&spec, before) {
				t.Error("Probe() changed the spec")
			}
		})
	}
}

func TestHelpers(t *testing.T) {
	var spec v1alpha1.ProxySpec
	if spec.ListenPort() != 3128 || spec.LeaseCap() != 0 {
		t.Errorf("without values: port %d, cap %d", spec.ListenPort(), spec.LeaseCap())
	}
	spec.Port, spec.MaxConcurrentLeases = ptr.To[int32](8080), ptr.To[int32](4)
	if spec.ListenPort() != 8080 || spec.LeaseCap() != 4 {
		t.Errorf("with values: port %d, cap %d", spec.ListenPort(), spec.LeaseCap())
	}

	if got := spec.AttributeMap(); got == nil || len(got) != 0 {
		t.Errorf("AttributeMap() of none = %#v, want an empty map", got)
	}
	spec.Attributes = map[string]v1alpha1.AttributeValue{"tier": "gold"}
	spec.AttributeMap()["tier"] = "changed"
	if spec.Attributes["tier"] != "gold" {
		t.Error("AttributeMap() shares its map with the spec")
	}

	for mode, want := range map[v1alpha1.Mode]bool{"": true, v1alpha1.ModeManaged: true, v1alpha1.ModeExternal: false} {
		p := v1alpha1.Proxy{Spec: v1alpha1.ProxySpec{Mode: mode}}
		if p.Managed() != want {
			t.Errorf("Managed() in mode %q = %v", mode, p.Managed())
		}
	}
	if key := (&v1alpha1.SecretKeyRef{Name: "a"}).SecretKey(); key != "user-data" {
		t.Errorf("SecretKey() without a key = %q", key)
	}
	if key := (&v1alpha1.SecretKeyRef{Name: "a", Key: "b"}).SecretKey(); key != "b" {
		t.Errorf("SecretKey() = %q, want b", key)
	}
	ca := []byte("pem")
	spec.HealthCheck = &v1alpha1.HealthCheck{TLS: &v1alpha1.HealthCheckTLS{CABundle: ca}}
	if !bytes.Equal(spec.Probe().CABundle, ca) {
		t.Error("Probe() lost the bundle")
	}
}
