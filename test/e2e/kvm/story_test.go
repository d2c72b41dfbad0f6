//go:build e2e

package kvm

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	epx "github.com/egress-proxies/egress-proxies-operator/pkg/client"
)

// boot is how long a guest may take until it is probed well; under emulation it takes one to two minutes.
const boot = 6 * time.Minute

// TestStory is the life of two proxies on a hypervisor.
func TestStory(t *testing.T) {
	r := shared
	r.removeBases(t)
	o := newOperator(t)
	passwords := map[string]string{"a": "correct-horse-1", "b": "correct-horse-2"}
	free := r.files.stall()
	for name, password := range passwords {
		r.secrets(t, name, password)
		r.create(t, name)
	}

	// The image is on its way, one download for both, and the operator dies in the middle of it.
	wait(t, time.Minute, "the progress of the download", func() string {
		for name := range passwords {
			p, err := r.proxy(t.Context(), name)
			if err != nil {
				return err.Error()
			}
			if _, said := condition(p, v1alpha1.ConditionProvisioned); !strings.Contains(said, "being downloaded") {
				return name + ": " + said
			}
			if p.Status.Instance != nil {
				t.Fatalf("%s has an attempt on record although its image is not there: %+v", name, p.Status.Instance)
			}
		}
		if _, bases := r.volumes(t); len(bases) != 1 {
			return fmt.Sprintf("volumes of base images: %q", bases)
		}
		return ""
	})
	o.kill()
	if n := r.files.downloads(); n != 1 {
		t.Errorf("%d downloads for two Proxies, want 1", n)
	}
	_, broken := r.volumes(t)
	free()
	o.start()
	began := time.Now()
	a, _ := r.ready(t, "a", 1, boot)
	b, _ := r.ready(t, "b", 1, boot)
	proved(t, "two guests Ready by probe %s after a SIGKILL in mid-download, the broken image unused", time.Since(began).Round(time.Second))
	if _, bases := r.volumes(t); len(bases) != 3 { // the broken one, the new one and its marker
		t.Errorf("volumes of base images: %q, the broken one is %q", bases, broken)
	}
	if got := r.domains(t); len(got) != 2 {
		t.Errorf("domains %v, want 2", got)
	}

	// Leases, and requests through the guests.
	crawler := o.crawler()
	for name, p := range map[string]*v1alpha1.Proxy{"a": a, "b": b} {
		l, err := crawler.Acquire(t.Context(), epx.Request{Namespace: "default", Selector: map[string]string{"name": name}, Wait: epx.MaxWait})
		must(t, err)
		for _, site := range []string{"http://" + siteAddress + "/", "https://" + siteAddress + "/"} {
			status, seen, err := fetch(t.Context(), l.HTTPProxy, site)
			if err != nil || status != http.StatusOK {
				t.Fatalf("%s through %s: %d, %v", site, name, status, err)
			}
			if seen.From != p.Status.IP || seen.Header.Get("Via")+seen.Header.Get("X-Forwarded-For")+seen.Header.Get("Proxy-Authorization") != "" {
				t.Errorf("%s was asked by %s (the guest has %s) with %v", site, seen.From, p.Status.IP, seen.Header)
			}
		}
		for _, inside := range []string{"http://169.254.169.254/", "http://10.77.0.53/"} {
			if status, _, err := fetch(t.Context(), l.HTTPProxy, inside); err != nil || status != http.StatusForbidden {
				t.Errorf("%s through %s: %d, %v, want 403", inside, name, status, err)
			}
		}
		bare := &url.URL{Scheme: "http", Host: fmt.Sprintf("%s:%d", p.Status.IP, 3128)}
		if status, _, err := fetch(t.Context(), http.ProxyURL(bare), "http://"+siteAddress+"/"); err != nil || status != http.StatusProxyAuthRequired {
			t.Errorf("without credentials: %d, %v, want 407", status, err)
		}
		must(t, l.Release(t.Context()))
	}
	proved(t, "lease, HTTP and CONNECT through the guests' Squid with the guest's own address, 407 without credentials, 403 to what is inside; configured by the sample's cloud-init")

	// libvirtd restarts under a fleet that runs.
	before := r.domains(t)
	must(t, r.control.Kill(t.Context(), "libvirtd"))
	must(t, r.control.Start(t.Context(), "libvirtd"))
	wait(t, time.Minute, "the domains after libvirtd's restart", func() string {
		if now := r.domains(t); fmt.Sprint(now) != fmt.Sprint(before) {
			return fmt.Sprint(now)
		}
		return ""
	})
	held(t, 15*time.Second, func() string {
		for name := range passwords {
			p, err := r.proxy(t.Context(), name)
			if err != nil {
				return err.Error()
			}
			if status, said := condition(p, v1alpha1.ConditionReady); status != metav1.ConditionTrue || p.Status.Instance.Attempt != 1 {
				return name + ": " + said
			}
		}
		return ""
	})
	proved(t, "libvirtd killed and restarted: the same domains, both Ready all the while")

	// A guest loses its power; the other one's cloud-init changes. Both are made again, at the same time.
	was := map[string]string{"a": r.uuidOf(t, a), "b": r.uuidOf(t, b)}
	r.powerCut(t, a)
	gone := wait(t, 30*time.Second, "a withdrawn", func() string {
		_, err := crawler.Acquire(t.Context(), epx.Request{Namespace: "default", Selector: map[string]string{"name": "a"}})
		if none := (*epx.NoMatchError)(nil); errors.As(err, &none) {
			return ""
		}
		return fmt.Sprint("still leased: ", err)
	})
	data := &corev1.Secret{}
	must(t, r.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "b-data"}, data))
	data.Data[v1alpha1.DefaultCloudInitKey] = []byte(userData(t, "second"))
	must(t, r.client.Update(t.Context(), data))
	began = time.Now()
	a, _ = r.ready(t, "a", 2, boot)
	b, _ = r.ready(t, "b", 2, boot)
	now := map[string]string{"a": r.uuidOf(t, a), "b": r.uuidOf(t, b)}
	if now["a"] == was["a"] || now["b"] == was["b"] || len(r.domains(t)) != 2 {
		t.Errorf("domains were %v, are %v of %v", was, now, r.domains(t))
	}
	proved(t, "a guest killed is withdrawn within %s and replaced, a change of cloud-init replaces the other: both Ready %s later", gone, time.Since(began).Round(time.Second))
	if n := r.files.downloads(); n != 2 {
		t.Errorf("the image was downloaded %d times, want 2: one broken off and one whole", n)
	}

	// The end of all, with a restart in between.
	l, err := crawler.Acquire(t.Context(), epx.Request{Namespace: "default", Selector: map[string]string{"name": "a"}, Wait: epx.MaxWait})
	must(t, err)
	for name := range passwords {
		must(t, r.client.Delete(t.Context(), &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}))
	}
	o.kill() // with a lease out, and before the guests are off
	o.start()
	took := wait(t, 3*time.Minute, "everything gone", func() string {
		for name := range passwords {
			if _, err := r.proxy(t.Context(), name); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("%s: %v", name, err)
			}
		}
		instances, _ := r.volumes(t)
		if d := r.domains(t); len(d)+len(instances) > 0 {
			return fmt.Sprint(d, instances)
		}
		return ""
	})
	if _, err := crawler.Acquire(t.Context(), epx.Request{Namespace: "default"}); !noneConsidered(err) {
		t.Errorf("a lease with no Proxy left: %v", err)
	}
	_ = l.Release(t.Context())
	o.stop()
	text, err := os.ReadFile(o.log)
	must(t, err)
	for _, secret := range []string{passwords["a"], passwords["b"], "basic_ncsa_auth", token} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the operator's log has %q", secret)
		}
	}
	proved(t, "deleted within %s: no domain, no volume, no lease; no secret in %d KiB of the operator's log", took, len(text)>>10)
}

// noneConsidered reports whether there was no proxy to choose from.
func noneConsidered(err error) bool {
	none, ok := errors.AsType[*epx.NoMatchError](err)
	return ok && none.Considered == 0
}

// held fails as soon as f complains within d.
func held(t *testing.T, d time.Duration, f func() (complaint string)) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		if complaint := f(); complaint != "" {
			t.Fatal(complaint)
		}
	}
}
