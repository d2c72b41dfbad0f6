package leaderlabel_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/internal/leaderlabel"
	"github.com/egress-proxies/egress-proxies-operator/test/controlplane"
)

var config *rest.Config

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	controlplane.Main(m, func(cfg *rest.Config) { config = cfg })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until waits for a condition of the cluster.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func TestTheLeaderAloneIsLabelled(t *testing.T) {
	c, err := client.New(config, client.Options{})
	must(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "label-"}}
	must(t, c.Create(t.Context(), ns))
	pod := func(name string, labels map[string]string) {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name, Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		must(t, c.Create(t.Context(), p))
	}
	pod("own", map[string]string{"app": "operator"})
	pod("former", map[string]string{leaderlabel.Label: "mine"})
	pod("neighbour", map[string]string{leaderlabel.Label: "another-installation"})
	label := func(name string) string {
		p := &corev1.Pod{}
		must(t, c.Get(t.Context(), client.ObjectKey{Namespace: ns.Name, Name: name}, p))
		return p.Labels[leaderlabel.Label]
	}
	clk := clocktesting.NewFakeClock(time.Now())
	var leading atomic.Bool
	leading.Store(true)
	l := &leaderlabel.Labeler{Reader: c, Writer: c, Namespace: ns.Name, Pod: "own", ID: "mine", Clock: clk, Leading: leading.Load}
	if !l.NeedLeaderElection() {
		t.Error("standbys label, too")
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Start(ctx) }()
	settled := func() bool {
		return label("own") == "mine" && label("former") == "" && label("neighbour") == "another-installation"
	}
	until(t, "the own Pod alone labelled", settled)

	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "former"}}
	must(t, c.Patch(t.Context(), p, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+leaderlabel.Label+`":"mine"}}}`))))
	until(t, "a wait", clk.HasWaiters)
	clk.Step(time.Minute)
	until(t, "mended after somebody changed it", settled)

	// Another one leads by now and has the label; this process has been asleep.
	leading.Store(false)
	for name, value := range map[string]string{"own": "null", "former": `"mine"`} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name}}
		must(t, c.Patch(t.Context(), p, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+leaderlabel.Label+`":`+value+`}}}`))))
	}
	for range 3 {
		until(t, "a wait", clk.HasWaiters)
		clk.Step(time.Minute)
	}
	until(t, "a wait", clk.HasWaiters)
	if label("own") != "" || label("former") != "mine" {
		t.Errorf("one that does not lead took the label: own %q, former %q", label("own"), label("former"))
	}

	stop()
	must(t, <-ended)
	if got := label("own"); got != "" {
		t.Errorf("the label stays after the end: %q", got)
	}
}

// setting is a namespace of its own with a Pod to label.
type setting struct {
	t         *testing.T
	c         client.Client
	namespace string
}

func newSetting(t *testing.T) setting {
	t.Helper()
	c, err := client.New(config, client.Options{})
	must(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "label-"}}
	must(t, c.Create(t.Context(), ns))
	must(t, c.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "own"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}))
	return setting{t, c, ns.Name}
}

func (s setting) label() string {
	s.t.Helper()
	p := &corev1.Pod{}
	must(s.t, s.c.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "own"}, p))
	return p.Labels[leaderlabel.Label]
}

// The manager starts the leader's parts before it says that it leads; until the label is there no client is served.
func TestALeaderIsLabelledAsSoonAsItSurelyLeads(t *testing.T) {
	s := newSetting(t)
	clk := clocktesting.NewFakeClock(time.Now())
	var leading atomic.Bool
	l := &leaderlabel.Labeler{Reader: s.c, Writer: s.c, Namespace: s.namespace, Pod: "own", ID: "mine", Clock: clk, Leading: leading.Load}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Start(ctx) }()
	until(t, "a wait", clk.HasWaiters)
	leading.Store(true)
	clk.Step(200 * time.Millisecond)
	until(t, "labelled", func() bool { return s.label() == "mine" })
	stop()
	must(t, <-ended)
}

// What the documentation asks for is enough: to list and patch Pods in the one namespace.
func TestListAndPatchAreEnough(t *testing.T) {
	s := newSetting(t)
	must(t, s.c.Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "labeller"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "patch"}}},
	}))
	must(t, s.c.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "labeller"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "labeller"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "operator"}},
	}))
	as := rest.CopyConfig(config)
	as.Impersonate.UserName = "operator"
	c, err := client.New(as, client.Options{})
	must(t, err)
	until(t, "the rights in force", func() bool {
		return c.List(t.Context(), &corev1.PodList{}, client.InNamespace(s.namespace)) == nil
	})
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "own"}, &corev1.Pod{}); !apierrors.IsForbidden(err) {
		t.Fatalf("it has more rights than meant: %v", err)
	}
	clk := clocktesting.NewFakeClock(time.Now())
	l := &leaderlabel.Labeler{Reader: c, Writer: c, Namespace: s.namespace, Pod: "own", ID: "mine", Clock: clk, Leading: func() bool { return true }}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Start(ctx) }()
	until(t, "labelled", func() bool { return s.label() == "mine" })
	stop()
	must(t, <-ended)
	if got := s.label(); got != "" {
		t.Errorf("the label stays after the end: %q", got)
	}
}

// Without the right to patch Pods the operator works on, and says so.
func TestAFailureIsTriedAgain(t *testing.T) {
	c, err := client.New(config, client.Options{})
	must(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "label-"}}
	must(t, c.Create(t.Context(), ns))
	clk := clocktesting.NewFakeClock(time.Now())
	l := &leaderlabel.Labeler{Reader: c, Writer: c, Namespace: ns.Name, Pod: "own", ID: "mine", Clock: clk, Leading: func() bool { return true }}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Start(ctx) }()
	until(t, "a wait after the failure: there is no such Pod yet", clk.HasWaiters)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "own"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	must(t, c.Create(t.Context(), p))
	clk.Step(2 * time.Second)
	until(t, "labelled", func() bool {
		must(t, c.Get(t.Context(), client.ObjectKeyFromObject(p), p))
		return p.Labels[leaderlabel.Label] == "mine"
	})
	stop()
	must(t, <-ended)
}
