package v1alpha1_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"pgregory.net/rapid"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// maxDurationLength is the schema's bound on the text of a Duration.
const maxDurationLength = 32

// durationPattern returns the pattern that the installed definition demands of every Duration.
func durationPattern(t *testing.T) string {
	t.Helper()
	spec := definition(t).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	hc := spec.Properties["healthCheck"]
	pattern := ""
	for name, s := range map[string]apiextensionsv1.JSONSchemaProps{
		"replaceUnhealthyAfter": spec.Properties["replaceUnhealthyAfter"],
		"interval":              hc.Properties["interval"],
		"timeout":               hc.Properties["timeout"],
	} {
		i := slices.IndexFunc(s.XValidations, func(r apiextensionsv1.ValidationRule) bool {
			return strings.HasPrefix(r.Rule, "self.matches('")
		})
		if i < 0 || s.MaxLength == nil || *s.MaxLength != maxDurationLength {
			t.Fatalf("%s has no pattern or another length: %+v", name, s)
		}
		p := strings.TrimSuffix(strings.TrimPrefix(s.XValidations[i].Rule, "self.matches('"), "')")
		if pattern != "" && p != pattern {
			t.Fatalf("%s has another pattern: %s", name, p)
		}
		pattern = p
		// The guards repeat the pattern: one that differs would let an evaluation fail, or a value pass.
		for _, r := range append(s.XValidations, hc.XValidations...) {
			if !strings.Contains(r.Rule, "matches('"+pattern+"')") {
				t.Fatalf("a rule beside %s guards with another pattern: %s", name, r.Rule)
			}
		}
	}
	return pattern
}

// TestEveryAdmittedDurationDecodes is the property for which the type exists.
func TestEveryAdmittedDurationDecodes(t *testing.T) {
	pattern := durationPattern(t)
	admitted := rapid.StringMatching(pattern)
	rapid.Check(t, func(t *rapid.T) {
		// Longer than the schema admits, too: an object stored under a looser bound must not stop an evaluation.
		text := admitted.Draw(t, "text")
		want, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("admitted, but Go refuses it: %v", err)
		}
		if want < 0 {
			t.Fatalf("%q overflows to %s", text, want)
		}
		var got v1alpha1.Duration
		raw, _ := json.Marshal(text)
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatalf("decoding %s: %v", raw, err)
		}
		if got.Duration.Duration != want {
			t.Fatalf("%q decodes to %s, want %s", text, got.Duration.Duration, want)
		}
	})
}

// TestExtremeDurations are the longest texts that the pattern admits.
func TestExtremeDurations(t *testing.T) {
	admitted := regexp.MustCompile(durationPattern(t))
	for _, text := range []string{
		strings.Repeat("9999h", 4), strings.Repeat("9999999m", 4), strings.Repeat("9999999s", 4), strings.Repeat("9999999ms", 4),
		"9999." + strings.Repeat("9", 100) + "h", "0." + strings.Repeat("0", 100) + "s",
	} {
		if !admitted.MatchString(text) {
			t.Errorf("%q is not admitted; the test no longer shows the extremes", text)
		}
		if d, err := time.ParseDuration(text); err != nil || d < 0 {
			t.Errorf("%q decodes to %s, %v", text, d, err)
		}
	}
}

// TestEveryWrittenDurationIsAdmitted: what a Go client writes within the bounds of any field must pass the schema.
func TestEveryWrittenDurationIsAdmitted(t *testing.T) {
	admitted := regexp.MustCompile(durationPattern(t))
	within := rapid.Custom(func(t *rapid.T) time.Duration {
		unit := rapid.SampledFrom([]time.Duration{time.Nanosecond, time.Millisecond, time.Second, time.Minute, time.Hour}).Draw(t, "unit")
		return time.Duration(rapid.Int64Range(int64(time.Second/unit), int64(720*time.Hour/unit)).Draw(t, "count")) * unit
	}).Filter(func(d time.Duration) bool { return d >= time.Second })
	rapid.Check(t, func(t *rapid.T) {
		want := within.Draw(t, "duration")
		raw, err := json.Marshal(v1alpha1.NewDuration(want))
		if err != nil {
			t.Fatalf("encoding %s: %v", want, err)
		}
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			t.Fatalf("%s is encoded as %s, no text", want, raw)
		}
		if !admitted.MatchString(text) || len(text) > maxDurationLength {
			t.Fatalf("%s is written as %q, which the schema refuses", want, text)
		}
		var got v1alpha1.Duration
		if err := json.Unmarshal(raw, &got); err != nil || got.Duration.Duration != want {
			t.Fatalf("%s comes back as %s (%v)", want, got.Duration.Duration, err)
		}
	})
}

func TestDurationJSON(t *testing.T) {
	var hc v1alpha1.HealthCheck
	if err := json.Unmarshal([]byte(`{"interval":"1m30s","timeout":null}`), &hc); err != nil {
		t.Fatalf("decoding: %v", err)
	}
	if hc.Interval == nil || hc.Interval.Duration.Duration != 90*time.Second || hc.Timeout != nil {
		t.Errorf("decoded %+v", hc)
	}
	raw, err := json.Marshal(hc)
	if err != nil || string(raw) != `{"interval":"1m30s"}` {
		t.Errorf("encoded %s, %v", raw, err)
	}
	for _, bad := range []string{`"1d"`, `"1 week"`, `""`, `"9999999h"`, `30`, `{}`} {
		var d v1alpha1.Duration
		if err := json.Unmarshal([]byte(bad), &d); err == nil {
			t.Errorf("%s decodes to %s", bad, d.Duration.Duration)
		}
	}
}
