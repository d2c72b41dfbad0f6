package scale

import (
	"fmt"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// namespace is where all objects of a world are.
const namespace = "crawl"

func keyOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func nth(i int) types.NamespacedName { return keyOf(fmt.Sprintf("p-%04d", i)) }

// pass lets time pass and has the world checked every second.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		<-time.After(min(time.Until(end), time.Second))
		synctest.Wait()
		for _, check := range w.checks {
			check()
		}
	}
}

// always has f run at every second that passes.
func (w *world) always(f func()) { w.checks = append(w.checks, f) }

// until lets time pass until done, and returns how long that took.
func (w *world) until(limit time.Duration, what string, done func() bool) time.Duration {
	w.t.Helper()
	for start := time.Now(); ; {
		synctest.Wait()
		if done() {
			return time.Since(start)
		}
		if time.Since(start) >= limit {
			w.t.Fatalf("not within %s: %s; %s", limit, what, w.summary())
		}
		w.pass(time.Second)
	}
}

// summary counts the fleet by what a person sees.
func (w *world) summary() string {
	seen := map[string]int{}
	for _, p := range w.all() {
		c := provisioned(p)
		seen[fmt.Sprintf("%s/%s %q", p.Status.Phase, c.Reason, c.Message)]++
	}
	return fmt.Sprint(seen)
}

// must ends the test on an error of the user's own requests.
func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// add creates a Proxy as a user does; change may edit it before.
func (w *world) add(i int, change ...func(*v1alpha1.Proxy)) types.NamespacedName {
	w.t.Helper()
	key := nth(i)
	p := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: types.UID(fmt.Sprintf("6f1c3d1e-0000-4000-8000-%012d", i))},
		Spec:       v1alpha1.ProxySpec{Mode: v1alpha1.ModeManaged, Provider: entry},
	}
	for _, f := range change {
		f(p)
	}
	w.must(w.server.create(kindProxy, p))
	return key
}

// grow creates n Proxies and waits until all of them are Ready.
func (w *world) grow(n int, change ...func(*v1alpha1.Proxy)) {
	w.t.Helper()
	for i := range n {
		w.add(i, change...)
	}
	took := w.until(15*time.Minute, "the fleet is up", func() bool { return w.count(ready) == n })
	w.pass(2 * time.Minute) // lists and probes have come round
	w.t.Logf("%d Proxies are up after %s", n, took)
}

// edit changes a stored Proxy as a user does.
func (w *world) edit(key types.NamespacedName, change func(*v1alpha1.Proxy)) {
	w.t.Helper()
	w.must(w.server.update(kindProxy, key, func(o client.Object) { change(o.(*v1alpha1.Proxy)) }))
}

func (w *world) delete(key types.NamespacedName) {
	w.t.Helper()
	w.must(w.server.remove(kindProxy, key))
}

// get returns the stored Proxy, nil when it is gone. It must not be changed.
func (w *world) get(key types.NamespacedName) *v1alpha1.Proxy {
	o, err := w.server.get(kindProxy, key)
	if err != nil {
		return nil
	}
	return o.(*v1alpha1.Proxy)
}

// all returns the stored Proxies. They must not be changed.
func (w *world) all() (proxies []*v1alpha1.Proxy) {
	objects, _ := w.server.list(kindProxy)
	for _, o := range objects {
		proxies = append(proxies, o.(*v1alpha1.Proxy))
	}
	return proxies
}

func (w *world) count(is func(*v1alpha1.Proxy) bool) (n int) {
	for _, p := range w.all() {
		if is(p) {
			n++
		}
	}
	return n
}

// offered returns how many Proxies are offered to crawlers, as discovery sees it.
func (w *world) offered() (n int) {
	for _, p := range w.store.OfProvider(entry) {
		if p.Withheld() == fleet.WithheldNot {
			n++
		}
	}
	return n
}

func ready(p *v1alpha1.Proxy) bool {
	return condition(p, v1alpha1.ConditionReady).Status == metav1.ConditionTrue && p.Status.ObservedGeneration == p.Generation
}

// cloudInitSecret returns a labelled Secret with user-data.
func cloudInitSecret(name, userData string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelCloudInit: v1alpha1.LabelValueTrue}},
		Data:       map[string][]byte{v1alpha1.DefaultCloudInitKey: []byte(userData)},
	}
}

// authSecret returns a labelled Secret with credentials.
func authSecret(name, password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "auth", Labels: map[string]string{v1alpha1.LabelProxyAuth: v1alpha1.LabelValueTrue}},
		Type:       corev1.SecretTypeBasicAuth,
		Data:       map[string][]byte{corev1.BasicAuthUsernameKey: []byte("crawler"), corev1.BasicAuthPasswordKey: []byte(password)},
	}
}

func (w *world) putSecret(s *corev1.Secret) {
	w.t.Helper()
	if _, err := w.server.get(kindSecret, client.ObjectKeyFromObject(s)); err != nil {
		w.must(w.server.create(kindSecret, s))
		return
	}
	w.must(w.server.update(kindSecret, client.ObjectKeyFromObject(s), func(o client.Object) { o.(*corev1.Secret).Data = s.Data }))
}
