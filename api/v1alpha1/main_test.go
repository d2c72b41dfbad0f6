package v1alpha1_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/test/controlplane"
)

// How long a test waits for the API server to take a changed definition over.
const (
	settleTimeout = 60 * time.Second
	settlePoll    = 50 * time.Millisecond
)

var (
	config *rest.Config
	kube   client.Client
)

func TestMain(m *testing.M) {
	controlplane.Main(m, func(cfg *rest.Config) {
		scheme := runtime.NewScheme()
		err := errors.Join(
			v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme))
		if err == nil {
			config = cfg
			kube, err = client.New(cfg, client.Options{Scheme: scheme})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	})
}

// newNamespace returns a namespace of the test's own, so that tests can run twice on one control plane.
func newNamespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "validation-"}}
	if err := kube.Create(t.Context(), ns); err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	return ns.Name
}

// object is a manifest as JSON has it, so that null and absent can be told apart.
type object map[string]any

// edit changes a manifest.
type edit func(object)

// managed and external return the smallest valid manifests with edits applied.
func managed(edits ...edit) object {
	return build(object{"provider": "local"}, edits)
}

func external(edits ...edit) object {
	return build(object{"mode": "External", "endpoint": map[string]any{"host": "192.0.2.7", "port": int64(3128)}}, edits)
}

func build(spec object, edits []edit) object {
	obj := object{
		"apiVersion": v1alpha1.GroupVersion().String(),
		"kind":       "Proxy",
		"metadata":   map[string]any{"generateName": "p-"},
		"spec":       map[string]any(spec),
	}
	for _, e := range edits {
		e(obj)
	}
	return obj
}

// set puts a value, nil for null, at a dotted path below spec; missing parents are made.
func set(path string, value any) edit {
	return func(obj object) {
		at(obj, "spec."+path, func(parent map[string]any, key string) { parent[key] = value })
	}
}

// unset removes what is at a dotted path below spec.
func unset(path string) edit {
	return func(obj object) {
		at(obj, "spec."+path, func(parent map[string]any, key string) { delete(parent, key) })
	}
}

// top puts a value, nil for null, at a dotted path of the whole manifest.
func top(path string, value any) edit {
	return func(obj object) { at(obj, path, func(parent map[string]any, key string) { parent[key] = value }) }
}

func at(obj object, path string, do func(parent map[string]any, key string)) {
	keys := strings.Split(path, ".")
	parent := map[string]any(obj)
	for _, key := range keys[:len(keys)-1] {
		child, ok := parent[key].(map[string]any)
		if !ok {
			child = map[string]any{}
			parent[key] = child
		}
		parent = child
	}
	do(parent, keys[len(keys)-1])
}

// unstructuredFrom returns a copy of obj that went through JSON.
func unstructuredFrom(t *testing.T, obj object) *unstructured.Unstructured {
	t.Helper()
	raw, err := json.Marshal(obj)
	if err != nil {
		t.Fatalf("encoding the manifest: %v", err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatalf("decoding the manifest: %v", err)
	}
	return u
}

// create stores obj in ns.
func create(t *testing.T, ns string, obj object, opts ...client.CreateOption) (*unstructured.Unstructured, error) {
	t.Helper()
	u := unstructuredFrom(t, obj)
	u.SetNamespace(ns)
	return u, kube.Create(t.Context(), u, opts...)
}

// mustCreate stores obj in ns.
func mustCreate(t *testing.T, ns string, obj object) *unstructured.Unstructured {
	t.Helper()
	u, err := create(t, ns, obj)
	if err != nil {
		t.Fatalf("creating the Proxy: %v", err)
	}
	return u
}

// row is one manifest and what the API server is to say about it: with an empty field it is accepted, otherwise it is
// rejected with one message, about that field, that contains want.
type row struct {
	name   string
	reason string
	obj    object
	field  string
	want   string
}

// runRows creates each row's manifest and checks the answer.
func runRows(t *testing.T, rows []row) {
	t.Helper()
	ns := newNamespace(t)
	for _, tc := range rows {
		t.Run(tc.name, func(t *testing.T) {
			u, err := create(t, ns, tc.obj)
			if tc.field != "" {
				wantRejected(t, err, tc.field, tc.want, tc.reason)
				return
			}
			if err != nil {
				t.Fatalf("%s: want accepted, got: %v", tc.reason, err)
			}
			checkDecodes(t, client.ObjectKeyFromObject(u))
		})
	}
}

// wantRejected checks that err is one message about field that contains want.
func wantRejected(t *testing.T, err error, field, want, reason string) {
	t.Helper()
	if err == nil {
		t.Fatalf("%s: want a rejection of %s, got none", reason, field)
	}
	if !apierrors.IsInvalid(err) {
		t.Fatalf("%s: want an Invalid error about %s, got: %v", reason, field, err)
	}
	causes := causesOf(t, err)
	if len(causes) != 1 {
		t.Fatalf("%s: want one message about %s, got %d: %v", reason, field, len(causes), err)
	}
	if causes[0].Field != field {
		t.Errorf("%s: the message is about %q, want %q: %v", reason, causes[0].Field, field, err)
	}
	if !strings.Contains(causes[0].Message, want) {
		t.Errorf("%s: the message %q does not contain %q", reason, causes[0].Message, want)
	}
	for _, noise := range []string{"evaluating rule", "failed rule", "no such key"} {
		if strings.Contains(causes[0].Message, noise) && !strings.Contains(want, noise) {
			t.Errorf("%s: the message %q speaks of the rule instead of the value", reason, causes[0].Message)
		}
	}
}

// causesOf returns the messages of an Invalid error without the two that the API server adds on its own to errors of
// length and type: that a bound could not be checked, and that further rules were not.
func causesOf(t *testing.T, err error) []metav1.StatusCause {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		t.Fatalf("want an API error with details, got: %v", err)
	}
	return slices.DeleteFunc(slices.Clone(status.Status().Details.Causes), func(c metav1.StatusCause) bool {
		return strings.Contains(c.Message, "some validation rules were not checked") ||
			strings.Contains(c.Message, "Checked value must be of type")
	})
}

// checkDecodes reads a stored Proxy into the Go type, calls every helper and writes it back: whatever the schema
// admits must be readable, and what the Go type writes must be admitted.
func checkDecodes(t *testing.T, key client.ObjectKey) *v1alpha1.Proxy {
	t.Helper()
	p := &v1alpha1.Proxy{}
	if err := kube.Get(t.Context(), key, p); err != nil {
		t.Fatalf("the stored object does not decode: %v", err)
	}
	probe := p.Spec.Probe()
	if probe.Timeout < time.Second || probe.Timeout > probe.Interval || probe.Interval > 24*time.Hour {
		t.Errorf("Probe() has timeout %s and interval %s", probe.Timeout, probe.Interval)
	}
	if probe.SuccessThreshold < 1 || probe.FailureThreshold < 1 || probe.URL == "" {
		t.Errorf("Probe() is incomplete: %+v", probe)
	}
	if port := p.Spec.ListenPort(); port < 1 || port > 65535 {
		t.Errorf("ListenPort() = %d", port)
	}
	if p.Spec.LeaseCap() < 0 {
		t.Errorf("LeaseCap() = %d", p.Spec.LeaseCap())
	}
	if got := len(p.Spec.AttributeMap()); got != len(p.Spec.Attributes) {
		t.Errorf("AttributeMap() has %d entries, want %d", got, len(p.Spec.Attributes))
	}
	if p.Managed() != (p.Spec.Mode == v1alpha1.ModeManaged) {
		t.Errorf("Managed() = %v in mode %q", p.Managed(), p.Spec.Mode)
	}
	if c := p.Spec.CloudInit; c != nil && c.SecretRef != nil && c.SecretRef.SecretKey() == "" {
		t.Error("SecretKey() is empty")
	}
	if err := kube.Update(t.Context(), p.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("writing the decoded object back: %v", err)
	}
	return p
}
