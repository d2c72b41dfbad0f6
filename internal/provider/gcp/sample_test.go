package gcp_test

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
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
	"github.com/egress-proxies/egress-proxies-operator/internal/forwardproxy"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/gcp"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
	"github.com/egress-proxies/egress-proxies-operator/test/controlplane"
)

const sampleFile = "../../../config/samples/proxy_gcp.yaml"

// TestSample: the API server takes the sample's objects, and the provider of the entry in its comment what they ask for, as does
// one without a firewall: the sample's credentials restrict it, too.
func TestSample(t *testing.T) {
	cfg, stop, err := controlplane.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("stopping the control plane: %v", err)
		}
	})
	plain, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kube := client.WithFieldValidation(plain, metav1.FieldValidationStrict)
	for _, u := range sampleObjects(t) {
		u.SetNamespace("default")
		if err := kube.Create(t.Context(), u, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", u.GetKind(), err)
		}
	}

	proxy, template := sampleProxy(t)
	uid := "00000000-0000-4000-8000-000000000001"
	req := provider.CreateRequest{
		Name: provider.NameFromUID(uid), UID: uid, Namespace: "default", ProxyName: proxy.Name, Port: proxy.Spec.ListenPort(), CloudInit: filled(template),
		Placement: provider.Placement{
			Region: proxy.Spec.Placement.Region, Zone: proxy.Spec.Placement.Zone,
			MachineType: proxy.Spec.Placement.MachineType, Image: proxy.Spec.Placement.Image,
		},
		Credentials: &provider.Credentials{Username: "crawler", Password: "change-me"}, Spec: "v1-0123456789abcdef",
	}
	for _, config := range []string{uncommented(textOf(t, sampleFile), "#   "), "providers: [{name: cloud, type: gcp, gcp: {project: crawlers-123456}}]"} {
		if _, err := entryOf(t, config).Plan(t.Context(), req); err != nil {
			t.Errorf("%v\n%s", err, config)
		}
	}
}

// filled is a template as the VM of the sample gets it.
func filled(template string) string {
	return strings.NewReplacer("${PROXY_PORT}", "3128", "${PROXY_USERNAME}", "crawler", "${PROXY_PASSWORD}", "change-me").Replace(template)
}

// TestConfigExamplesDecode: what the page and the sample of a configuration show can be taken over, and the page names every
// key.
func TestConfigExamplesDecode(t *testing.T) {
	page := textOf(t, "../../../docs/gcp-provider.md")
	examples := 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page, -1) {
		if strings.HasPrefix(block[1], "providers:") {
			entryOf(t, block[1])
			examples++
		}
	}
	if examples != 1 {
		t.Errorf("the page has %d examples of a configuration", examples)
	}
	runbook := regexp.MustCompile(`(?s)<<END\n(providers:.*?)\nEND\n`).FindStringSubmatch(page)
	if runbook == nil {
		t.Fatal("the page has no runbook with a configuration")
	}
	entryOf(t, strings.NewReplacer("$PROJECT", "project-a", "$REGION", "us-central1", "$OPERATOR", "192.0.2.1", "$ME", "192.0.2.2").Replace(runbook[1]))
	for _, key := range keysOf(reflect.TypeFor[gcp.Config](), "") {
		if !strings.Contains(page, "\n| `"+key+"` |") {
			t.Errorf("the page's table has no row for %s", key)
		}
	}

	sample := textOf(t, "../../../config/samples/providers-config.yaml")
	shown, hidden, found := strings.Cut(sample, "# - name: cloud\n")
	if !found {
		t.Fatal("the sample of a configuration has no entry for a cloud")
	}
	entryOf(t, shown+"- name: cloud\n"+uncommented(hidden, "# "))
}

// TestSampleSquidStaysOutside: the sample's Squid, and the rules of the kernel behind it, refuse whatever is not the internet.
func TestSampleSquidStaysOutside(t *testing.T) {
	_, template := sampleProxy(t)
	var squid, kernel []addresses
	for line := range strings.Lines(template) {
		line = strings.TrimSpace(line)
		if list, ok := strings.CutPrefix(line, "acl inside dst "); ok {
			squid = append(squid, addressesOf(t, strings.Fields(list))...)
		}
		if list, ok := strings.CutPrefix(line, "ip daddr { "); ok {
			kernel = append(kernel, addressesOf(t, strings.Split(strings.TrimSuffix(list, " } reject"), ", "))...)
		}
	}
	// The edges of what is listed, one address of each /16, and those of smaller networks that the proxy of the provider local
	// refuses.
	var judged []netip.Addr
	for _, edge := range slices.Concat(squid, kernel) {
		judged = append(judged, edge.from, edge.to, edge.from.Prev(), edge.to.Next())
	}
	for i := range 1 << 16 {
		judged = append(judged, netip.AddrFrom4([4]byte{byte(i >> 8), byte(i), 77, 77}))
	}
	for _, name := range []string{
		"169.254.169.254", "168.63.129.16", "192.0.0.1", "192.0.2.1", "192.88.99.1", "198.51.100.1", "203.0.113.1",
		"::", "::1", "64:ff9b::a9fe:a9fe", "100::1", "2001::1", "2001:db8::1", "2002:a00:1::", "3fff::1", "5f00::1", "fd20:ce::254", "fe80::1", "ff02::1",
	} {
		judged = append(judged, netip.MustParseAddr(name))
	}
	policy := forwardproxy.DestinationPolicy{}
	for _, a := range judged {
		if !a.IsValid() || a == netip.IPv4Unspecified() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			continue // for Squid these are others
		}
		refused := policy.Check(a) != nil
		if a.Is4() && (amongst(squid, a) != refused || amongst(kernel, a) != refused) {
			t.Errorf("%s: refused by Squid %t, by the kernel %t, want %t", a, amongst(squid, a), amongst(kernel, a), refused)
		}
		// IPv4 in IPv6 is refused as a whole: such a VM has no IPv6.
		if a.Is6() && !a.Is4In6() && refused && !amongst(squid, a) {
			t.Errorf("%s is not refused", a)
		}
	}
}

// TestSampleSquidParses: Squid takes the configuration without complaints.
func TestSampleSquidParses(t *testing.T) {
	if _, err := exec.LookPath("squid"); err != nil {
		t.Skip("squid is not installed (Debian and Ubuntu: apt-get install squid)")
	}
	_, template := sampleProxy(t)
	filled := filled(template)
	if strings.Contains(filled, "${") {
		t.Error("there is a variable that nobody fills in")
	}
	var cloud struct {
		Files []struct{ Path, Content string } `json:"write_files"`
	}
	if err := yaml.Unmarshal([]byte(filled), &cloud); err != nil {
		t.Fatal(err)
	}
	if len(cloud.Files) == 0 || cloud.Files[0].Path != "/etc/squid/squid.conf" {
		t.Fatalf("files: %+v", cloud.Files)
	}
	file := filepath.Join(t.TempDir(), "squid.conf")
	if err := os.WriteFile(file, []byte(cloud.Files[0].Content), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "squid", "-k", "parse", "-f", file).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "WARNING") && !strings.Contains(line, "HTTP requires the use of Via") || strings.Contains(line, "ERROR") || strings.Contains(line, "FATAL") {
			t.Error(line)
		}
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

// entryOf returns the provider of the one entry for Compute Engine in a configuration.
func entryOf(t *testing.T, config string) provider.Provider {
	t.Helper()
	entries, err := registry.Parse([]byte(config), []string{gcp.Type, local.Type})
	if err != nil {
		t.Fatalf("%v\n%s", err, config)
	}
	for _, e := range entries {
		if e.Type != gcp.Type {
			continue
		}
		p, err := gcp.New(t.Context(), provider.Options{
			Name: e.Name, Block: e.Block(), Owner: owner, Window: provider.Window{Clock: clock.RealClock{}, CallTimeout: 30 * time.Second, Skew: 5 * time.Second},
		})
		if err != nil {
			t.Fatalf("%v\n%s", err, config)
		}
		t.Cleanup(func() { _ = p.(io.Closer).Close() })
		return p
	}
	t.Fatalf("no entry of type %s in\n%s", gcp.Type, config)
	return nil
}

func sampleObjects(t *testing.T) (all []*unstructured.Unstructured) {
	t.Helper()
	for docs := yaml.NewYAMLOrJSONDecoder(strings.NewReader(textOf(t, sampleFile)), 4096); ; {
		u := &unstructured.Unstructured{}
		if err := docs.Decode(u); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, u)
	}
}

// sampleProxy returns the sample's Proxy and the cloud-init that it names, and checks that what it names is there.
func sampleProxy(t *testing.T) (p v1alpha1.Proxy, template string) {
	t.Helper()
	secrets := map[string]corev1.Secret{}
	for _, u := range sampleObjects(t) {
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

// keysOf returns the names of a block's keys, those of its members with a dot.
func keysOf(of reflect.Type, before string) (all []string) {
	for f := range of.Fields() {
		key := before + f.Tag.Get("json")
		if f.Type.Kind() == reflect.Struct {
			all = append(all, keysOf(f.Type, key+".")...)
			continue
		}
		all = append(all, key)
	}
	return all
}

// addresses is a run of addresses of one family.
type addresses struct{ from, to netip.Addr }

// addressesOf reads networks, addresses and ranges.
func addressesOf(t *testing.T, list []string) (out []addresses) {
	t.Helper()
	for _, s := range list {
		if from, to, ok := strings.Cut(s, "-"); ok {
			out = append(out, addresses{netip.MustParseAddr(from), netip.MustParseAddr(to)})
			continue
		}
		n, err := netip.ParsePrefix(s)
		if err != nil {
			a := netip.MustParseAddr(s)
			n = netip.PrefixFrom(a, a.BitLen())
		}
		last := n.Addr().AsSlice()
		for i := n.Bits(); i < len(last)*8; i++ {
			last[i/8] |= 0x80 >> (i % 8)
		}
		to, _ := netip.AddrFromSlice(last)
		out = append(out, addresses{n.Addr(), to})
	}
	return out
}

func amongst(list []addresses, a netip.Addr) bool {
	for _, s := range list {
		if s.from.BitLen() == a.BitLen() && !a.Less(s.from) && !s.to.Less(a) {
			return true
		}
	}
	return false
}
