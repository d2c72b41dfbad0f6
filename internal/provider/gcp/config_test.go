package gcp

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

const fullBlock = `
project: crawlers-123456
regions: [europe-west3, northamerica-northeast1]
network: projects/crawlers-123456/global/networks/crawl
subnetworks: {europe-west3: regions/europe-west3/subnetworks/crawlers}
networkTag: exits
addressType: internal
networkTier: STANDARD
diskSizeGb: 20
diskType: pd-balanced
provisioning: spot
serviceAccount:
  email: crawler@crawlers-123456.iam.gserviceaccount.com
  scopes: [https://www.googleapis.com/auth/logging.write]
labels: {team: crawling, cost_center: "42", empty: ""}
firewall: {manage: true, sourceRanges: [192.0.2.0/24, 198.51.100.7/32]}
credentialsFile: /etc/gcp/key.json
endpoint: https://compute-crawl.p.googleapis.com/compute/v1
`

func parse(t *testing.T, text string) (Config, error) {
	t.Helper()
	block, err := registry.ParseBlock(Type, []byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return decode(block)
}

func TestAFullConfigurationIsTakenAsItIs(t *testing.T) {
	c, err := parse(t, fullBlock)
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() != (name == "Anonymous") {
			t.Errorf("%s is %v", name, v.Field(i))
		}
	}
	if c.Endpoint != "https://compute-crawl.p.googleapis.com/compute/v1/" || c.Labels["cost_center"] != "42" || len(c.Firewall.SourceRanges) != 2 {
		t.Errorf("%+v", c)
	}
}

func TestDefaults(t *testing.T) {
	c, err := parse(t, "project: crawlers-123456")
	want := Config{
		Project: "crawlers-123456", Network: "global/networks/default", NetworkTag: "egress-proxy", AddressType: "external",
		NetworkTier: "PREMIUM", DiskSizeGB: 10, Provisioning: "standard",
	}
	if err != nil || !reflect.DeepEqual(c, want) {
		t.Errorf("%+v, %v, want %+v", c, err, want)
	}
}

func TestConfigurationsThatAreFine(t *testing.T) {
	var ranges []string
	for i := range maxSourceRanges {
		ranges = append(ranges, fmt.Sprintf("10.0.%d.0/24", i))
	}
	for _, text := range []string{
		"{project: crawlers, regions: [us-east1], subnetworks: {us-east1: projects/host-1/regions/us-east1/subnetworks/crawl}}",
		"{project: crawlers, subnetworks: {us-east1: 'https://www.googleapis.com/compute/v1/projects/crawlers/regions/us-east1/subnetworks/crawl'}}",
		"{project: abcdef}", "{project: 'example.com:crawlers-1'}", "{project: crawlers, diskSizeGb: 65536}",
		"{project: crawlers, serviceAccount: {email: default}}",
		"{project: crawlers, serviceAccount: {email: 12345-compute@developer.gserviceaccount.com}}",
		"{project: crawlers, firewall: {manage: true, sourceRanges: [0.0.0.0/2, 128.0.0.0/2]}}",
		"{project: crawlers, firewall: {manage: true, sourceRanges: [192.0.2.0/24]}, network: projects/crawlers/global/networks/crawl}",
		"{project: crawlers, firewall: {manage: true, sourceRanges: [192.0.2.0/24]}, network: 'https://compute.googleapis.com/compute/v1/projects/crawlers/global/networks/crawl'}",
		"{project: crawlers, firewall: {existingSourceRanges: [192.0.2.0/24]}, network: projects/host-1/global/networks/crawl}",
		"{project: crawlers, firewall: {manage: true, sourceRanges: [" + strings.Join(ranges, ", ") + "]}}",
		"{project: crawlers, endpoint: 'http://127.0.0.1:8080', anonymous: true}", "{project: crawlers, endpoint: 'http://[::1]:8080/'}",
		"{project: crawlers, endpoint: 'http://localhost:8080', credentialsFile: /key.json}",
	} {
		if _, err := parse(t, text); err != nil {
			t.Errorf("%.80s: %v", text, err)
		}
	}
}

func TestEndpointsBecomeBaseURLs(t *testing.T) {
	for endpoint, want := range map[string]string{
		"":                                      "",
		"https://api.example.com":               "https://api.example.com/compute/v1/",
		"https://api.example.com/":              "https://api.example.com/compute/v1/",
		"https://api.example.com/compute/v1":    "https://api.example.com/compute/v1/",
		"https://api.example.com/compute/beta/": "https://api.example.com/compute/beta/",
		"http://127.0.0.1:1/a/b":                "http://127.0.0.1:1/a/b/",
	} {
		c, err := parse(t, fmt.Sprintf("{project: crawlers, endpoint: %q}", endpoint))
		if err != nil || c.Endpoint != want {
			t.Errorf("%q becomes %q, %v, want %q", endpoint, c.Endpoint, err, want)
		}
	}
}

func TestNewNeedsMarksThatFitIntoLabels(t *testing.T) {
	for _, part := range []string{"Upper", "a.b", strings.Repeat("a", 64)} {
		for _, o := range []struct{ installation, cluster string }{{part, "c"}, {"i", part}} {
			if _, err := newProvider(t, "{project: crawlers}", o.installation, o.cluster); err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("installation %q, cluster %q: %v", o.installation, o.cluster, err)
			}
		}
	}
}
