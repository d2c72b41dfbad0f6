package kvm_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
	"github.com/egress-proxies/egress-proxies-operator/test/controlplane"
)

const samples = "../../../config/samples/"

// TestSample: the API server takes the sample's objects, and the entry in its comment what they ask for. How the host is
// reached is for the Secret to say, and there is none here.
func TestSample(t *testing.T) {
	cfg, stop, err := controlplane.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stop(); err != nil {
			t.Errorf("stopping the control plane: %v", err)
		}
	}()
	plain, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kube := client.WithFieldValidation(plain, metav1.FieldValidationStrict)
	for _, u := range sampleObjects(t, "proxy_kvm.yaml") {
		u.SetNamespace("default")
		if err := kube.Create(t.Context(), u, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", u.GetKind(), err)
		}
	}

	proxy, template := sampleProxy(t, "proxy_kvm.yaml")
	uid := "00000000-0000-4000-8000-000000000001"
	_, err = sampleEntry(t, uncommented(textOf(t, samples+"proxy_kvm.yaml"), "#   ")).Plan(t.Context(), provider.CreateRequest{
		Name: provider.NameFromUID(uid), UID: uid, Namespace: "default", ProxyName: proxy.Name, Port: proxy.Spec.ListenPort(), CloudInit: filled(template),
		Placement: provider.Placement{
			Region: proxy.Spec.Placement.Region, Zone: proxy.Spec.Placement.Zone,
			MachineType: proxy.Spec.Placement.MachineType, Image: proxy.Spec.Placement.Image,
		},
		Credentials: &provider.Credentials{Username: "crawler", Password: "change-me"}, Spec: "v1-0123456789abcdef",
	})
	expect(t, "the sample's plan", err, provider.ErrDenied, "", "/etc/kvm-ssh/key")
}

// TestSampleConfigsDecode: so do the entry of the sample of a configuration and that of the overlay.
func TestSampleConfigsDecode(t *testing.T) {
	_, hidden, found := strings.Cut(textOf(t, samples+"providers-config.yaml"), "# - name: hypervisors\n")
	entry, _, end := strings.Cut(hidden, "# A VM of Compute Engine")
	if !found || !end {
		t.Fatal("the sample of a configuration has no entry for hypervisors before that for a cloud")
	}
	entry = "providers:\n- name: hypervisors\n" + uncommented(entry, "# ")
	sampleEntry(t, entry)
	sampleEntry(t, regexp.MustCompile("(?m)^( *)# ([a-zA-Z]+: )").ReplaceAllString(strings.ReplaceAll(entry, "      network: egress\n", ""), "$1$2"))
	sampleEntry(t, textOf(t, samples+"overlay-kvm/providers.yaml"))
}

// TestSampleSquidIsThatOfGCP: whose tests hold Squid and the kernel's rules to what they refuse. Beside these are the guest's
// own name servers, which are private.
func TestSampleSquidIsThatOfGCP(t *testing.T) {
	_, ours := sampleProxy(t, "proxy_kvm.yaml")
	_, theirs := sampleProxy(t, "proxy_gcp.yaml")
	rules := func(template string) (out []string) {
		section := template[strings.Index(template, "/etc/squid/squid.conf"):strings.Index(template, "/etc/squid/inside.nft")]
		section += template[strings.Index(template, "chain out"):strings.Index(template, "/etc/systemd/system")]
		for line := range strings.Lines(section) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "#") || strings.HasSuffix(line, "dport 53 accept") {
				continue
			}
			out = append(out, line)
			if strings.HasPrefix(line, "ip6 daddr { ") {
				break
			}
		}
		return out
	}
	got, want := rules(ours), rules(theirs)
	if strings.Join(got, "\n") != strings.Join(want, "\n") || len(got) < 40 {
		t.Errorf("%d rules:\n%s\nwant\n%s", len(got), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if left := filled(ours); strings.Contains(left, "${") {
		t.Error("there is a variable that nobody fills in")
	}
}

func textOf(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// uncommented returns the lines of a comment that begin with prefix, without it.
func uncommented(text, prefix string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if inner, ok := strings.CutPrefix(line, prefix); ok {
			out.WriteString(inner)
		}
	}
	return out.String()
}

// filled is a template as the guest of the sample gets it.
func filled(template string) string {
	return strings.NewReplacer("${PROXY_PORT}", "3128", "${PROXY_USERNAME}", "crawler", "${PROXY_PASSWORD}", "change-me").Replace(template)
}

// sampleEntry returns the provider of a configuration's one entry.
func sampleEntry(t *testing.T, config string) provider.Provider {
	t.Helper()
	entries, err := registry.Parse([]byte(config), []string{kvm.Type})
	if err != nil || len(entries) != 1 {
		t.Fatalf("%d entries, %v\n%s", len(entries), err, config)
	}
	p, err := kvm.New(t.Context(), provider.Options{
		Name: entries[0].Name, Block: entries[0].Block(), Owner: owner,
		Window: provider.Window{Clock: clock.RealClock{}, CallTimeout: 30 * time.Second, Skew: 5 * time.Second},
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, config)
	}
	t.Cleanup(func() { _ = p.(io.Closer).Close() })
	return p
}

func sampleObjects(t *testing.T, file string) (all []*unstructured.Unstructured) {
	t.Helper()
	for docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(textOf(t, samples+file))), 4096); ; {
		u := &unstructured.Unstructured{}
		if err := docs.Decode(u); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, u)
	}
}

// sampleProxy returns a sample's Proxy and the cloud-init that it names, and checks that what it names is there.
func sampleProxy(t *testing.T, file string) (p v1alpha1.Proxy, template string) {
	t.Helper()
	secrets := map[string]corev1.Secret{}
	for _, u := range sampleObjects(t, file) {
		var s corev1.Secret
		var err error
		if u.GetKind() == "Proxy" {
			err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, &p, true)
		} else if err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, &s, true); err == nil {
			secrets[s.Name] = s
		}
		if err != nil {
			t.Fatalf("%s: %v", u.GetKind(), err)
		}
	}
	auth, squid := secrets[p.Spec.Auth.SecretRef.Name], secrets[p.Spec.CloudInit.SecretRef.Name]
	if auth.Type != corev1.SecretTypeBasicAuth || auth.Labels[v1alpha1.LabelProxyAuth] != "true" || squid.Labels[v1alpha1.LabelCloudInit] != "true" {
		t.Errorf("the Secrets cannot be read: %v, %v", auth, squid.Labels)
	}
	template = squid.StringData[p.Spec.CloudInit.SecretRef.SecretKey()]
	if !strings.HasPrefix(template, "#cloud-config\n") {
		t.Fatalf("this is no cloud-init: %q", template)
	}
	return p, template
}

// What the page shows of configurations can be taken over, and its table names every key.
func TestConfigExamplesDecode(t *testing.T) {
	page, err := os.ReadFile("../../../docs/kvm-provider.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if !strings.HasPrefix(block[1], "providers:") {
			continue
		}
		examples++
		entries, err := registry.Parse([]byte(block[1]), []string{kvm.Type, "local", "gcp", "kubernetes"})
		if err != nil {
			t.Errorf("%v\n%s", err, block[1])
			continue
		}
		for _, e := range entries {
			if e.Type != kvm.Type {
				continue
			}
			p, err := kvm.New(t.Context(), provider.Options{
				Name: e.Name, Block: e.Block(), Owner: owner, Window: provider.Window{Clock: clock.RealClock{}, CallTimeout: 30 * time.Second, Skew: 5 * time.Second},
			})
			if err != nil {
				t.Errorf("%v\n%s", err, block[1])
				continue
			}
			if err := p.(io.Closer).Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if examples == 0 {
		t.Error("the page has no example of a configuration")
	}
	for _, key := range keysOf(reflect.TypeFor[kvm.Config](), "") {
		if !strings.Contains(string(page), "| `"+key+"` |") {
			t.Errorf("the page's tables have no row for %s", key)
		}
	}
}

// keysOf returns the names of a block's keys, those of its members alone.
func keysOf(of reflect.Type, before string) (all []string) {
	for f := range of.Fields() {
		key, inner := before+f.Tag.Get("json"), f.Type
		if (inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map) && inner.Elem().Kind() == reflect.Struct && inner.Elem().PkgPath() == of.PkgPath() {
			all = append(all, keysOf(inner.Elem(), "")...)
			continue
		}
		all = append(all, key)
	}
	return all
}
