package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// earlier is a clock that is behind, so that what is made by it is old enough for the collector.
type earlier struct{ clock.RealClock }

const head = 2 * time.Minute

func (earlier) Now() time.Time                  { return time.Now().Add(-head) }
func (earlier) Since(t time.Time) time.Duration { return time.Since(t.Add(head)) }

// cloudOnHost is an emulated Compute Engine whose VMs are proxies of this process, with a file of provider entries that is
// mounted as the kubelet mounts a ConfigMap.
type cloudOnHost struct {
	t        *testing.T
	c        client.Client
	ns       string
	emulator *gcpemulator.Server
	port     int32
	folder   string
	version  int
}

func newCloudOnHost(t *testing.T, subnet int) *cloudOnHost {
	t.Helper()
	x := &cloudOnHost{t: t, c: cluster(t), folder: t.TempDir()}
	x.ns = newNamespace(t, x.c)
	var addresses []string
	for i := range 4 {
		address := fmt.Sprintf("127.0.%d.%d", subnet, i+1)
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("%s:%d", address, x.port))
		if err != nil {
			t.Fatal(err)
		}
		x.port = int32(listener.Addr().(*net.TCPAddr).Port)
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
		_ = s.Listener.Close()
		s.Listener = listener
		s.Start()
		t.Cleanup(s.Close)
		addresses = append(addresses, address)
	}
	var err error
	x.emulator, err = gcpemulator.New(gcpemulator.Options{Clock: earlier{}, Addresses: addresses}).Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.emulator.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// file is the path of the entries' file.
func (x *cloudOnHost) file() string { return filepath.Join(x.folder, "providers.yaml") }

// publish exchanges the file as the kubelet does: by another folder behind a symlink.
func (x *cloudOnHost) publish(text string) {
	x.t.Helper()
	before := fmt.Sprintf("..v%d", x.version)
	x.version++
	now := fmt.Sprintf("..v%d", x.version)
	errs := []error{
		os.Mkdir(filepath.Join(x.folder, now), 0o700),
		os.WriteFile(filepath.Join(x.folder, now, "providers.yaml"), []byte(text), 0o600),
		os.Symlink(now, filepath.Join(x.folder, "..data_tmp")),
		os.Rename(filepath.Join(x.folder, "..data_tmp"), filepath.Join(x.folder, "..data")),
		os.RemoveAll(filepath.Join(x.folder, before)),
	}
	if x.version == 1 {
		errs = append(errs, os.Symlink("..data/providers.yaml", x.file()))
	}
	if err := errors.Join(errs...); err != nil {
		x.t.Fatal(err)
	}
}

// entry is the text of one; names are the namespace's own, for objects named after entries have none.
func (x *cloudOnHost) entry(name, project, more string) string {
	return fmt.Sprintf("- name: %s\n  type: gcp\n%s  gcp:\n    project: %s\n    endpoint: %s\n    anonymous: true\n    firewall: {existingSourceRanges: [10.0.0.0/8]}\n",
		x.named(name), more, project, x.emulator.URL)
}

func (x *cloudOnHost) named(name string) string { return x.ns + "-" + name }

func providersOf(entries ...string) string {
	if len(entries) == 0 {
		return "providers: []\n"
	}
	return "providers:\n" + strings.Join(entries, "")
}

// start runs an operator of an installation of its own on the file.
func (x *cloudOnHost) start(args ...string) *operatorProcess {
	x.t.Helper()
	return startOperator(x.t, noProviders, append([]string{
		"--providers-config", x.file(), "--namespace", x.ns, "--installation-id", x.ns, "--leader-election-namespace", x.ns, "--drift-poll", "1s",
	}, args...)...)
}

func (x *cloudOnHost) create(name, entry string) {
	x.t.Helper()
	p := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: x.ns, Name: name},
		Spec: v1alpha1.ProxySpec{
			Mode: v1alpha1.ModeManaged, Provider: x.named(entry), Port: ptr.To(x.port),
			Placement:   &v1alpha1.Placement{Zone: "us-central1-a", MachineType: "e2-micro", Image: "projects/debian-cloud/global/images/family/debian-12"},
			HealthCheck: &v1alpha1.HealthCheck{URL: "http://origin.test/", Interval: v1alpha1.NewDuration(time.Second)},
		},
	}
	if err := x.c.Create(x.t.Context(), p); err != nil {
		x.t.Fatal(err)
	}
}

func (x *cloudOnHost) get(name string) *v1alpha1.Proxy {
	x.t.Helper()
	p := &v1alpha1.Proxy{}
	if err := x.c.Get(x.t.Context(), client.ObjectKey{Namespace: x.ns, Name: name}, p); client.IgnoreNotFound(err) != nil {
		x.t.Fatal(err)
	}
	return p
}

func (x *cloudOnHost) remove(name string) {
	x.t.Helper()
	p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: x.ns, Name: name}}
	if err := x.c.Delete(x.t.Context(), p); client.IgnoreNotFound(err) != nil {
		x.t.Fatal(err)
	}
}

func (x *cloudOnHost) ready(name string) bool {
	return meta.IsStatusConditionTrue(x.get(name).Status.Conditions, v1alpha1.ConditionReady)
}

// provisioned is the text of a Proxy's condition, "Reason: message".
func (x *cloudOnHost) provisioned(name string) string {
	return said(meta.FindStatusCondition(x.get(name).Status.Conditions, v1alpha1.ConditionProvisioned))
}

// accepted is the text of an entry's condition.
func (x *cloudOnHost) accepted(entry string) string {
	h := &v1alpha1.ProviderHealth{}
	if err := x.c.Get(x.t.Context(), client.ObjectKey{Name: x.named(entry)}, h); err != nil {
		return err.Error()
	}
	return said(meta.FindStatusCondition(h.Status.Conditions, v1alpha1.ConditionConfigurationAccepted))
}

func said(c *metav1.Condition) string {
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

// calls counts what was asked of the cloud that changes something there.
func (x *cloudOnHost) calls() int {
	return x.emulator.Calls("instances.insert") + x.emulator.Calls("instances.delete") + x.emulator.Calls("disks.delete")
}

// scrape returns what the operator at address shows as metrics.
func scrape(t *testing.T, address string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return ""
	}
	return string(text)
}

// sample returns the value of a series as it is written, "" where there is none.
func sample(metrics, series string) string {
	for line := range strings.Lines(metrics) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
