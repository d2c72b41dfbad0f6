package v1alpha1_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

func condition(kind, status string) map[string]any {
	return map[string]any{
		"type": kind, "status": status, "reason": "Created", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z",
	}
}

// TestStatusValues writes each status with an update of the subresource. What is stored must decode in Go: one object
// that does not would keep every informer from syncing.
func TestStatusValues(t *testing.T) {
	const (
		micro  = "2026-01-02T03:04:05.000006Z"
		second = "2026-01-02T03:04:05Z"
	)
	u := mustCreate(t, newNamespace(t), managed())
	one := func(field, value string) map[string]any { return map[string]any{field: value} }
	instance := func(attempt any, requestedAt string) map[string]any {
		return map[string]any{"instance": map[string]any{"attempt": attempt, "requestedAt": requestedAt}}
	}
	conditionAt := func(value string) map[string]any {
		c := condition("Ready", "True")
		c["lastTransitionTime"] = value
		return map[string]any{"conditions": []any{c}}
	}
	for _, tc := range []struct {
		name   string
		reason string
		status map[string]any
		field  string
		want   string
	}{
		{name: "empty", reason: "nothing seen yet", status: map[string]any{}},
		{name: "full", reason: "every field", status: map[string]any{
			"phase": "Ready", "observedGeneration": 3, "providerID": "hosts/a/processes/b", "ip": "2001:db8::1", "port": 3128,
			"exitAddress": "192.0.2.1", "latencyMillis": 12, "lastHealthCheckTime": second, "drainingSince": micro, "replaced": "1",
			"instance":    map[string]any{"attempt": 2, "requestedAt": micro},
			"latch":       map[string]any{"reason": "PermanentError", "specMark": "v1", "revision": "r", "attempts": 1, "nextRetryTime": micro},
			"recreations": map[string]any{"count": 1, "lastTime": micro},
			"conditions":  []any{condition("Provisioned", "True"), condition("Healthy", "Unknown"), condition("Ready", "False")},
		}},
		{name: "lastHealthCheckTime in fractions", reason: "Go reads it", status: one("lastHealthCheckTime", micro)},
		{name: "lastHealthCheckTime with lower-case letters", reason: "RFC 3339 allows it, Go does not", status: one("lastHealthCheckTime", "2026-01-02t03:04:05z"),
			field: "status.lastHealthCheckTime", want: "should match"},
		{name: "lastHealthCheckTime with a mark for a point", reason: "the format's own pattern allows it", status: one("lastHealthCheckTime", "2026-01-02T03:04:05x6Z"),
			field: "status.lastHealthCheckTime", want: "should match"},
		{name: "lastHealthCheckTime on no day", reason: "no time", status: one("lastHealthCheckTime", "2026-02-30T03:04:05Z"),
			field: "status.lastHealthCheckTime", want: "must be of type date-time"},
		{name: "lastHealthCheckTime in no hour", reason: "no time", status: one("lastHealthCheckTime", "2026-01-02T24:00:00Z"),
			field: "status.lastHealthCheckTime", want: "must be of type date-time"},
		{name: "drainingSince in seconds", reason: "Go reads six digits or nothing", status: one("drainingSince", second),
			field: "status.drainingSince", want: "should match"},
		{name: "drainingSince in nanoseconds", reason: "Go reads six digits or nothing", status: one("drainingSince", "2026-01-02T03:04:05.000000006Z"),
			field: "status.drainingSince", want: "should match"},
		{name: "requestedAt in seconds", reason: "Go reads six digits or nothing", status: instance(1, second),
			field: "status.instance.requestedAt", want: "should match"},
		{name: "attempt 0", reason: "attempts count from one", status: instance(0, micro), field: "status.instance.attempt", want: "Invalid value: 0: "},
		{name: "attempt beyond what JSON numbers hold", reason: "would not be read as written", status: instance(1e19, micro),
			field: "status.instance.attempt", want: "must be of type int64"},
		{name: "nextRetryTime in seconds", reason: "Go reads six digits or nothing", status: map[string]any{"latch": map[string]any{"reason": "x", "nextRetryTime": second}},
			field: "status.latch.nextRetryTime", want: "should match"},
		{name: "recreations.lastTime in seconds", reason: "Go reads six digits or nothing", status: map[string]any{"recreations": map[string]any{"count": 1, "lastTime": second}},
			field: "status.recreations.lastTime", want: "should match"},
		{name: "recreations.count beyond int32", reason: "Go would not read it", status: map[string]any{"recreations": map[string]any{"count": int64(1) << 31, "lastTime": micro}},
			field: "status.recreations.count", want: "less than or equal to"},
		{name: "port 65536", reason: "no port", status: map[string]any{"port": 65536}, field: "status.port", want: "less than or equal to 65535"},
		{name: "latencyMillis beyond int64", reason: "Go would not read it", status: map[string]any{"latencyMillis": 1e19},
			field: "status.latencyMillis", want: "must be of type int64"},
		{name: "one condition twice", reason: "a map by type", status: map[string]any{"conditions": []any{condition("Ready", "True"), condition("Ready", "False")}},
			field: "status.conditions[1]", want: "Duplicate value"},
		{name: "condition status", reason: "True, False or Unknown", status: map[string]any{"conditions": []any{condition("Ready", "Maybe")}},
			field: "status.conditions[0].status", want: `Unsupported value: "Maybe"`},
		{name: "condition time with lower-case letters", reason: "RFC 3339 allows it, Go does not", status: conditionAt("2026-01-02t03:04:05z"),
			field: "status.conditions", want: "evaluating rule: lastTransitionTime must be a time"},
		{name: "condition time with a mark for a point", reason: "the format's own pattern allows it", status: conditionAt("2026-01-02T03:04:05x6Z"),
			field: "status.conditions", want: "evaluating rule: lastTransitionTime must be a time"},
		{name: "condition time with an offset", reason: "Go reads it", status: conditionAt("2026-01-02T03:04:05+02:00")},
		{name: "condition time with an impossible offset", reason: "Go would not read it", status: conditionAt("2026-01-02T03:04:05+99:99"),
			field: "status.conditions", want: "evaluating rule: lastTransitionTime must be a time"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			next := u.DeepCopy()
			if err := kube.Get(t.Context(), client.ObjectKeyFromObject(u), next); err != nil {
				t.Fatalf("reading the Proxy: %v", err)
			}
			next.Object["status"] = unstructuredFrom(t, build(object{}, []edit{top("status", tc.status)})).Object["status"]
			err := kube.Status().Update(t.Context(), next)
			if tc.field != "" {
				wantRejected(t, err, tc.field, tc.want, tc.reason)
				return
			}
			if err != nil {
				t.Fatalf("%s: want accepted, got: %v", tc.reason, err)
			}
			p := checkDecodes(t, client.ObjectKeyFromObject(u))
			if err := kube.Status().Update(t.Context(), p); err != nil {
				t.Errorf("writing the decoded status back: %v", err)
			}
		})
	}
}

func TestStatusIsASubresource(t *testing.T) {
	ns := newNamespace(t)
	u := mustCreate(t, ns, managed(top("status.phase", "Ready")))
	if phase, _, _ := unstructured.NestedString(u.Object, "status", "phase"); phase != "" {
		t.Errorf("a create stored status.phase %q", phase)
	}
	generation := u.GetGeneration()

	next := u.DeepCopy()
	next.Object["status"] = map[string]any{"phase": "Ready"}
	next.Object["spec"] = map[string]any{"provider": "other", "cordoned": true}
	if err := kube.Status().Update(t.Context(), next); err != nil {
		t.Fatalf("updating the status: %v", err)
	}
	p := checkDecodes(t, client.ObjectKeyFromObject(u))
	if p.Status.Phase != v1alpha1.PhaseReady || p.Spec.Provider != "local" || p.Spec.Cordoned || p.Generation != generation {
		t.Errorf("a status update left phase %q, spec %+v, generation %d (before %d)", p.Status.Phase, p.Spec, p.Generation, generation)
	}

	p.Status.Phase = v1alpha1.PhaseFailed
	p.Spec.Cordoned = true
	if err := kube.Update(t.Context(), p); err != nil {
		t.Fatalf("updating the spec: %v", err)
	}
	p = checkDecodes(t, client.ObjectKeyFromObject(u))
	if p.Status.Phase != v1alpha1.PhaseReady || !p.Spec.Cordoned {
		t.Errorf("an update of the spec left phase %q, cordoned %v", p.Status.Phase, p.Spec.Cordoned)
	}
}

func TestConditionsMergeByType(t *testing.T) {
	u := mustCreate(t, newNamespace(t), managed())
	apply := func(owner string, conditions ...any) {
		t.Helper()
		patch := unstructuredFrom(t, build(object{}, []edit{func(o object) { delete(o, "spec") }}))
		patch.SetGenerateName("")
		patch.SetName(u.GetName())
		patch.SetNamespace(u.GetNamespace())
		patch.Object["status"] = map[string]any{"conditions": conditions}
		if err := kube.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(owner)); err != nil {
			t.Fatalf("applying conditions as %s: %v", owner, err)
		}
	}
	apply("reconciler", condition("Provisioned", "True"), condition("Ready", "False"))
	apply("prober", condition("Healthy", "True"))
	apply("reconciler", condition("Provisioned", "False"))
	got := map[string]string{}
	for _, c := range checkDecodes(t, client.ObjectKeyFromObject(u)).Status.Conditions {
		got[c.Type] = string(c.Status)
	}
	if len(got) != 2 || got["Provisioned"] != "False" || got["Healthy"] != "True" {
		t.Errorf("conditions are %v, want each manager's own", got)
	}
}
