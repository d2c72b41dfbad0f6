package kubernetes_test

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kubernetes"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

func TestConforms(t *testing.T) {
	seen := &skips{T: providertest.Go(t), all: new([]string)}
	providertest.Run(seen, conformanceEnv)
	want := []string{
		// No quota of Kubernetes makes itself felt after a Pod was accepted; TestStates shows what does.
		"late-failure-frees-the-next-attempt", "late-failure-is-classified", "late-failure-tells-what-is-left",
	}
	slices.Sort(*seen.all)
	if !slices.Equal(*seen.all, want) {
		t.Errorf("skipped were\n%s\nwant\n%s", strings.Join(*seen.all, "\n"), strings.Join(want, "\n"))
	}
}

// skips is a T that remembers which parts were skipped.
type skips struct {
	providertest.T
	name string
	all  *[]string
}

func (s *skips) Run(name string, f func(providertest.T)) bool {
	return s.T.Run(name, func(t providertest.T) { f(&skips{T: t, name: name, all: s.all}) })
}

func (s *skips) Skipf(format string, args ...any) {
	*s.all = append(*s.all, s.name)
	s.T.Skipf(format, args...)
}

func conformanceEnv(t providertest.T) *providertest.Env { return newWorld(t).conformance() }

// conformance is what the suite needs to know of the world.
func (w *world) conformance() *providertest.Env {
	w.extra += "machineTypes: {small: {}}\nimages: {debian: 'example.com/squid:1'}\n"
	bad := func(field, value string, change func(*provider.CreateRequest)) providertest.Invalid {
		req := w.guarded()
		change(&req)
		return providertest.Invalid{Request: req, Field: field, Value: value}
	}
	return &providertest.Env{
		Provider: func(name string, o provider.Owner) provider.Provider { return conforming{w.providerOf(name, o)} },
		Owner:    owner,
		Request:  w.request,
		Invalid: []providertest.Invalid{
			bad("placement.zone", "no zone", func(r *provider.CreateRequest) { r.Placement.Zone = "no zone" }),
			bad("placement.region", "../eu", func(r *provider.CreateRequest) { r.Placement.Region = "../eu" }),
			bad("placement.machineType", "huge", func(r *provider.CreateRequest) { r.Placement.MachineType = "huge" }),
			bad("placement.image", "alpine", func(r *provider.CreateRequest) { r.Placement.Image = "alpine" }),
			bad("port", "70000", func(r *provider.CreateRequest) { r.Port = 70000 }),
			bad("name", "proxy-somebody", func(r *provider.CreateRequest) { r.Name = "proxy-somebody" }),
			bad("namespace", "elsewhere", func(r *provider.CreateRequest) { r.Namespace = "elsewhere" }),
			bad("cloudInit", "", func(r *provider.CreateRequest) { r.CloudInit = "#cloud-config" }),
			bad("spec.auth", "", func(r *provider.CreateRequest) { r.Credentials = nil }),
		},
		ForeignIDs:   []string{"elsewhere/" + provider.NameFromUID("x")},
		MalformedIDs: []string{w.namespace + "/", w.namespace + "/proxy-UPPER", "/" + provider.NameFromUID("x"), w.namespace + "/other"},
		Window:       w.window,
		Wait:         w.wait,
		Leftovers:    w.leftovers,
		Many:         8,
		NoCloudInit:  true,

		Advance:    w.advance,
		HoldBoot:   w.holdBoot,
		HoldCreate: func() (<-chan struct{}, func()) { return w.wire.hold(on(http.MethodGet, "pods")) },
		HoldGet:    func() (<-chan struct{}, func()) { return w.wire.hold(on(http.MethodGet, "pods")) },
		HoldSend:   func() (<-chan struct{}, func()) { return w.wire.hold(method(http.MethodPost)) },
		HoldDelete: func() (<-chan struct{}, func()) { return w.wire.hold(method(http.MethodDelete)) },
		LoseAnswer: func() { w.wire.lose(on(http.MethodPost, "pods")) },
		ArriveLate: func(d time.Duration) { w.wire.delay(on(http.MethodPost, "pods"), d, false) },
		ShowLate:   func(d time.Duration) { w.wire.delay(on(http.MethodPost, "pods"), d, true) },
		Place:      w.place,
		Terminate: func(id string) {
			w.status(nameIn(id), corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."})
		},
		Confuse: func(id string) { w.status(nameIn(id), corev1.PodStatus{Phase: corev1.PodUnknown}) },
		Vanish: func(id string) {
			w.remove(nameIn(id), w.pod(id).UID)
			w.tolerate(w.kube.CoreV1().Secrets(w.namespace).Delete(context.Background(), nameIn(id), metav1.DeleteOptions{}))
		},
		LoseMain: func(id string) { w.remove(nameIn(id), w.pod(id).UID) },
		BreakScope: func(string) func() {
			return w.wire.add(&fault{
				match: func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/namespaces/"+w.namespace) },
				do:    refuse(http.StatusForbidden, "Forbidden", "you cannot read this", nil),
			})
		},
		ExhaustQuota: w.exhaustQuota,
		Throttle: func(d time.Duration) func() {
			header := http.Header{"Retry-After": {strconv.Itoa(int(d.Seconds()))}}
			return w.wire.add(&fault{match: always, do: refuse(http.StatusTooManyRequests, "", "too many requests", header)})
		},
		Deny: func() func() {
			return w.wire.add(&fault{match: always, do: refuse(http.StatusUnauthorized, "Unauthorized", "Unauthorized", nil)})
		},
		CredentialRevision: w.acceptedRevision,
	}
}

// conforming is the provider as the suite calls it: it gives different credentials different passwords, as revisions promise.
type conforming struct{ *kubernetes.Provider }

func revised(c provider.Credentials) provider.Credentials {
	c.Password += "." + c.Revision
	return c
}

func (c conforming) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	if req.Credentials != nil {
		changed := revised(*req.Credentials)
		req.Credentials = &changed
	}
	return c.Provider.Create(ctx, req, ref)
}

func (c conforming) UpdateCredentials(ctx context.Context, ref provider.Ref, creds provider.Credentials) error {
	return c.Provider.UpdateCredentials(ctx, ref, revised(creds))
}

// acceptedRevision tries which password the stored hash belongs to.
func (w *world) acceptedRevision(id string) string {
	secret, err := w.kube.CoreV1().Secrets(w.namespace).Get(context.Background(), nameIn(id), metav1.GetOptions{})
	must(w.t, err)
	user, hash, _ := strings.Cut(strings.TrimSpace(string(secret.Data["htpasswd"])), ":")
	for _, revision := range []string{"r1", "r2"} {
		c := revised(provider.Credentials{Password: "sentinel-password-9b7e", Revision: revision})
		if user == "user" && bcrypt.CompareHashAndPassword([]byte(hash), []byte(c.Password)) == nil {
			return revision
		}
	}
	return "unknown"
}

func (w *world) holdBoot() (release func()) {
	set := func(boots bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.boots = boots
	}
	set(false)
	return func() { set(true) }
}

func (w *world) leftovers(ctx context.Context) (left []string, err error) {
	pods, err := w.kube.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, p := range pods.Items {
		left = append(left, fmt.Sprintf("%s/%s Pod %s %s deleting %v", p.Namespace, p.Name, p.UID, p.Status.Phase, p.DeletionTimestamp))
	}
	secrets, err := w.kube.CoreV1().Secrets(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, s := range secrets.Items {
		left = append(left, fmt.Sprintf("%s/%s Secret %s", s.Namespace, s.Name, s.UID))
	}
	return left, nil
}

func (w *world) place(id string) func() bool {
	pod := bare(nameIn(id))
	pod.Labels = map[string]string{"team": "somebody-elses"}
	placed, err := w.kube.CoreV1().Pods(w.namespace).Create(context.Background(), pod, metav1.CreateOptions{})
	must(w.t, err)
	return func() bool {
		now, err := w.kube.CoreV1().Pods(w.namespace).Get(context.Background(), placed.Name, metav1.GetOptions{})
		// The scheduler may have looked at it meanwhile.
		return err == nil && now.UID == placed.UID && now.DeletionTimestamp == nil && reflect.DeepEqual(now.Labels, placed.Labels) &&
			len(now.Annotations) == 0 && (live.kubeconfig != "" || now.ResourceVersion == placed.ResourceVersion)
	}
}

// bare is a Pod that the strictest Pod security lets through.
func bare(name string) *corev1.Pod {
	yes, no := true, false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: "c", Image: "example.com/c", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}}},
		},
	}
}

// exhaustQuota leaves no room for Pods. Its status is what the controller manager would write.
func (w *world) exhaustQuota() (restore func()) {
	api := w.kube.CoreV1().ResourceQuotas(w.namespace)
	none := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "full"}, Spec: corev1.ResourceQuotaSpec{Hard: none}}
	q, err := api.Create(context.Background(), q, metav1.CreateOptions{})
	must(w.t, err)
	if live.kubeconfig == "" {
		q.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
		_, err = api.UpdateStatus(context.Background(), q, metav1.UpdateOptions{})
		must(w.t, err)
	}
	w.until(func(err error) bool { return err != nil && strings.Contains(err.Error(), "exceeded quota") })
	return func() {
		must(w.t, api.Delete(context.Background(), q.Name, metav1.DeleteOptions{}))
		w.until(func(err error) bool { return err == nil })
	}
}

// until tries Pods until the answer is as wanted.
func (w *world) until(want func(error) bool) {
	w.t.Helper()
	var last error
	for range 1000 {
		_, last = w.kube.CoreV1().Pods(w.namespace).Create(context.Background(), bare("probe"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if want(last) {
			return
		}
		if last != nil && !apierrors.IsForbidden(last) {
			must(w.t, last)
		}
		must(w.t, w.wait(w.t.Context()))
	}
	w.t.Fatalf("the quota did not take effect: %v", last)
}
