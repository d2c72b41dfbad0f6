//go:build e2e

package kvm

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// userData is what the sample configures Squid by. What changes is a line with the version.
func userData(t *testing.T, version string) string {
	t.Helper()
	data, err := os.ReadFile("../../../config/samples/proxy_kvm.yaml")
	must(t, err)
	for doc := range bytes.SplitSeq(data, []byte("\n---\n")) {
		s := &corev1.Secret{}
		must(t, yaml.Unmarshal(doc, s))
		if text := s.StringData[v1alpha1.DefaultCloudInitKey]; text != "" {
			return text + "\n# " + version + "\n"
		}
	}
	t.Fatal("the sample has no cloud-init")
	return ""
}

func (r *rig) secrets(t *testing.T, name, password string) {
	t.Helper()
	for _, s := range []*corev1.Secret{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-auth", Labels: map[string]string{v1alpha1.LabelProxyAuth: "true"}},
		Type:       corev1.SecretTypeBasicAuth, StringData: map[string]string{"username": username, "password": password},
	}, {
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-data", Labels: map[string]string{v1alpha1.LabelCloudInit: "true"}},
		StringData: map[string]string{v1alpha1.DefaultCloudInitKey: userData(t, "first")},
	}} {
		must(t, r.client.Create(t.Context(), s))
	}
}

func (r *rig) create(t *testing.T, name string) {
	t.Helper()
	must(t, r.client.Create(t.Context(), &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1alpha1.ProxySpec{
			Mode: v1alpha1.ModeManaged, Provider: "hypervisor", Port: ptr.To[int32](3128),
			Placement:  &v1alpha1.Placement{Zone: "hv1", MachineType: "small", Image: "debian"},
			CloudInit:  &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: name + "-data"}},
			Auth:       &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: name + "-auth"}},
			Attributes: map[string]v1alpha1.AttributeValue{"name": v1alpha1.AttributeValue(name)},
			HealthCheck: &v1alpha1.HealthCheck{
				URL: "http://" + siteAddress + "/healthy", ExpectedStatus: ptr.To[int32](204),
				Interval: v1alpha1.NewDuration(2 * time.Second),
			},
		},
	}))
}

func (r *rig) proxy(ctx context.Context, name string) (*v1alpha1.Proxy, error) {
	p := &v1alpha1.Proxy{}
	return p, r.client.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, p)
}

// condition is the reason and message of a condition, empty for none.
func condition(p *v1alpha1.Proxy, kind string) (status metav1.ConditionStatus, said string) {
	c := meta.FindStatusCondition(p.Status.Conditions, kind)
	if c == nil {
		return metav1.ConditionUnknown, ""
	}
	return c.Status, c.Reason + ": " + c.Message
}

// ready waits until the Proxy is Ready by an instance of at least that attempt, and returns it.
func (r *rig) ready(t *testing.T, name string, attempt int64, limit time.Duration) (p *v1alpha1.Proxy, took time.Duration) {
	t.Helper()
	took = wait(t, limit, name+" Ready", func() string {
		var err error
		if p, err = r.proxy(t.Context(), name); err != nil {
			return err.Error()
		}
		status, said := condition(p, v1alpha1.ConditionReady)
		if status == metav1.ConditionTrue && p.Status.Instance != nil && p.Status.Instance.Attempt >= attempt {
			return ""
		}
		_, provisioned := condition(p, v1alpha1.ConditionProvisioned)
		return said + "; " + provisioned
	})
	return p, took
}

// The host, as its administrator sees it.

// domains returns UUIDs by name.
func (r *rig) domains(t *testing.T) map[string]string {
	t.Helper()
	r.connected(t)
	all, _, err := r.libvirt.ConnectListAllDomains(1, 0)
	must(t, err)
	out := map[string]string{}
	for _, d := range all {
		out[d.Name] = uuid.UUID(d.UUID).String()
	}
	return out
}

func (r *rig) connected(t *testing.T) {
	t.Helper()
	if _, err := r.libvirt.ConnectGetLibVersion(); err != nil {
		must(t, r.libvirt.Connect())
	}
}

// volumes returns the names of all, those of instances and those of base images.
func (r *rig) volumes(t *testing.T) (instances, bases []string) {
	t.Helper()
	r.connected(t)
	pool, err := r.libvirt.StoragePoolLookupByName(os.Getenv("E2E_KVM_POOL"))
	must(t, err)
	all, _, err := r.libvirt.StoragePoolListAllVolumes(pool, 1, 0)
	must(t, err)
	for _, v := range all {
		if strings.HasPrefix(v.Name, "proxy-") {
			instances = append(instances, v.Name)
		} else {
			bases = append(bases, v.Name)
		}
	}
	return instances, bases
}

// removeBases removes the base images that other tests have left.
func (r *rig) removeBases(t *testing.T) {
	t.Helper()
	_, bases := r.volumes(t)
	pool, err := r.libvirt.StoragePoolLookupByName(os.Getenv("E2E_KVM_POOL"))
	must(t, err)
	for _, name := range bases {
		v, err := r.libvirt.StorageVolLookupByName(pool, name)
		must(t, err)
		must(t, r.libvirt.StorageVolDelete(v, 0))
	}
}

// powerCut kills the QEMU of a Proxy's domain.
func (r *rig) powerCut(t *testing.T, p *v1alpha1.Proxy) {
	t.Helper()
	name := provider.NameFromUID(string(p.UID))
	text, err := os.ReadFile("/run/libvirt/qemu/" + name + ".pid")
	must(t, err)
	var pid int
	_, err = fmt.Sscan(string(text), &pid)
	must(t, err)
	must(t, syscall.Kill(pid, syscall.SIGKILL))
}

func (r *rig) uuidOf(t *testing.T, p *v1alpha1.Proxy) string {
	t.Helper()
	return r.domains(t)[provider.NameFromUID(string(p.UID))]
}

// A crawler.

// fetch sends a request through a proxy and returns its status and, where the website answered, what it saw.
func fetch(ctx context.Context, proxy func(*http.Request) (*url.URL, error), target string) (status int, seen asked, err error) {
	c := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		Proxy: proxy, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return 0, seen, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, seen, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusOK {
		err = json.Unmarshal(body, &seen)
	}
	return resp.StatusCode, seen, err
}
