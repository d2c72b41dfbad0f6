package gcp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

func newProvider(t *testing.T, text, installation, cluster string) (provider.Provider, error) {
	t.Helper()
	block, err := registry.ParseBlock(Type, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return New(t.Context(), provider.Options{Name: "test", Block: block, Owner: provider.Owner{Installation: installation, Cluster: cluster}})
}

// many returns n entries of a list or map.
func many(n int, format string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(format, i))
	}
	return strings.Join(all, ", ")
}

// Errors name the entry, the key and the value.
func TestConfigurationsThatAreRefused(t *testing.T) {
	ranges := func(list string) string { return "firewall: {manage: true, sourceRanges: [" + list + "]}" }
	existing := func(list string) string { return "firewall: {existingSourceRanges: [" + list + "]}" }
	in := func(network string) string { return ranges("192.0.2.0/24") + "\nnetwork: " + network }
	for _, tc := range []struct{ text, key, says string }{
		{"projct: x", "projct", "unknown key"},
		{"project: ''", "project", `""`},
		{"project: 123456", "project", "string"},
		{"project: '123456'", "project", "123456"},
		{"project: Crawlers", "project", "Crawlers"},
		{"project: short", "project", "short"},
		{"project: craw/lers", "project", "craw/lers"},
		{"regions: [europe-west3, europe-west3]", "regions[1]", "europe-west3"},
		{"regions: [europe-west3-a]", "regions[0]", `"europe-west3-a" is a zone; its region is "europe-west3"`},
		{"regions: [EU]", "regions[0]", "EU"},
		{"regions: [" + many(65, "europe-west%d") + "]", "regions", "65"},
		{"network: 'a b'", "network", "a b"},
		{"network: ''", "network", `""`},
		{"network: default", "network", `"default" is a name; write it as "global/networks/default"`},
		{"network: networks/default", "network", "such as global/networks/default"},
		{"network: global/networks/Default", "network", "Default"},
		{"network: global/networks/a/b", "network", "a/b"},
		{"network: 'http://www.googleapis.com/compute/v1/projects/crawlers/global/networks/default'", "network", "http://"},
		{"subnetworks: {europe-west3-a: x}", "subnetworks", "europe-west3-a"},
		{"subnetworks: {europe-west3: 'a b'}", "subnetworks.europe-west3", "a b"},
		{"subnetworks: {europe-west3: crawl}", "subnetworks.europe-west3", `"crawl" is a name; write it as "regions/europe-west3/subnetworks/crawl"`},
		{"subnetworks: {europe-west3: global/networks/crawl}", "subnetworks.europe-west3", "such as regions/europe-west3/subnetworks/crawlers"},
		{"subnetworks: {europe-west3: regions/us-east1/subnetworks/crawl}", "subnetworks.europe-west3", "is in region us-east1"},
		{"subnetworks: {us-east1: regions/us-east1/subnetworks/a, europe-west3: regions/europe-west3/subnetworks/a}\nregions: [us-east1]", "subnetworks.europe-west3", "regions leave europe-west3 out"},
		{"subnetworks: {" + many(65, "europe-west%d: x") + "}", "subnetworks", "65"},
		{"networkTag: ''", "networkTag", `""`},
		{"networkTag: Tag", "networkTag", "Tag"},
		{"networkTag: " + strings.Repeat("a", 64), "networkTag", "aaa"},
		{"addressType: both", "addressType", "both"},
		{"networkTier: premium", "networkTier", "premium"},
		{"diskSizeGb: 9", "diskSizeGb", "9"},
		{"diskSizeGb: 65537", "diskSizeGb", "65537"},
		{"diskSizeGb: 10.5", "diskSizeGb", "whole"},
		{"diskType: zones/a/diskTypes/b", "diskType", "zones/a/diskTypes/b"},
		{"provisioning: SPOT", "provisioning", "SPOT"},
		{"serviceAccount: {email: nobody}", "serviceAccount.email", "nobody"},
		{"serviceAccount: {scopes: ['https://a/b']}", "serviceAccount.scopes", "serviceAccount.email"},
		{"serviceAccount: {email: default, scopes: [cloud-platform]}", "serviceAccount.scopes[0]", "cloud-platform"},
		{"serviceAccount: {email: default, scopes: [" + many(65, "https://a/%d") + "]}", "serviceAccount.scopes", "65"},
		{"labels: {Team: x}", "labels", "Team"},
		{"labels: {1st: x}", "labels", "1st"},
		{"labels: {team: A.B}", "labels.team", "A.B"},
		{"labels: {team: " + strings.Repeat("a", 64) + "}", "labels.team", "aaa"},
		{"labels: {proxy-operator-uid: x}", "labels", "operator's own"},
		{"labels: {proxy-operator-other: x}", "labels", "operator's own"},
		{"labels: {" + many(49, "l%d: x") + "}", "labels", "49"},
		{"firewall: {manage: true}", "firewall.sourceRanges", "crawlers"},
		{"firewall: {sourceRanges: [192.0.2.0/24]}", "firewall.sourceRanges", "firewall.manage"},
		{ranges("0.0.0.0/0"), "firewall.sourceRanges[0]", "admits everybody"},
		{ranges("192.0.2.0/24, 128.0.0.0/1"), "firewall.sourceRanges[1]", "admits everybody"},
		{ranges("0.0.0.0/2, 64.0.0.0/2"), "firewall.sourceRanges", `"0.0.0.0/1"`},
		{ranges("64.0.0.0/3, 96.0.0.0/4, 0.0.0.0/2, 112.0.0.0/4"), "firewall.sourceRanges", `"0.0.0.0/1"`},
		{ranges("'::/0'"), "firewall.sourceRanges[0]", "::/0"},
		{ranges("'2001:db8::/32'"), "firewall.sourceRanges[0]", "IPv4"},
		{ranges("'::ffff:0:0/96'"), "firewall.sourceRanges[0]", "write an IPv4 network as one"},
		{ranges("192.0.2.1/24"), "firewall.sourceRanges[0]", `did you mean "192.0.2.0/24"`},
		{ranges("192.0.2.1"), "firewall.sourceRanges[0]", `"192.0.2.1" is an address; want a network such as 192.0.2.0/24, for one address "192.0.2.1/32"`},
		{ranges("office"), "firewall.sourceRanges[0]", `"office": want a network such as 192.0.2.0/24`},
		{ranges("192.0.2.0/33"), "firewall.sourceRanges[0]", `"192.0.2.0/33": want a network`},
		{ranges("192.0.2.0/24, 192.0.2.0"), "firewall.sourceRanges[1]", "is an address"},
		{ranges("''"), "firewall.sourceRanges[0]", "want"},
		{ranges(strings.Repeat("192.0.2.0/24, ", 257)), "firewall.sourceRanges", "257"},
		{"firewall: {manage: true, sourceRanges: [192.0.2.0/24], existingSourceRanges: [192.0.2.0/24]}", "firewall.existingSourceRanges", "firewall.manage"},
		{existing("0.0.0.0/0"), "firewall.existingSourceRanges[0]", "admits everybody"},
		{existing("192.0.2.0/24, '::/0'"), "firewall.existingSourceRanges[1]", "IPv4"},
		{existing("0.0.0.0/2, 64.0.0.0/2"), "firewall.existingSourceRanges", `"0.0.0.0/1"`},
		{existing("192.0.2.1/24"), "firewall.existingSourceRanges[0]", `did you mean "192.0.2.0/24"`},
		{existing(strings.Repeat("192.0.2.0/24, ", 257)), "firewall.existingSourceRanges", "257"},
		// A Shared VPC.
		{in("projects/host-1/global/networks/crawl"), "firewall.manage", `network "projects/host-1/global/networks/crawl" is of project "host-1"`},
		{in("https://www.googleapis.com/compute/v1/projects/host-1/global/networks/crawl"), "firewall.manage", `"host-1"`},
		{in("projects/crawlers2/global/networks/crawl"), "firewall.manage", `"crawlers2"`},
		{"firewall: {manage: 'yes'}", "firewall.manage", "true or false"},
		{"credentialsFile: key.json", "credentialsFile", "key.json"},
		{"anonymous: true", "anonymous", "endpoint"},
		{"{anonymous: true, endpoint: 'https://a/', credentialsFile: /key}", "anonymous", "credentialsFile"},
		{"endpoint: compute.googleapis.com", "endpoint", "base URL"},
		{"endpoint: 'ftp://a/'", "endpoint", "base URL"},
		{"endpoint: 'https://a/?x=y'", "endpoint", "base URL"},
		{"endpoint: 'https://a/#x'", "endpoint", "base URL"},
		{"endpoint: 'http://compute.example.com/'", "endpoint", "TLS"},
		{"endpoint: 'http://127.example.com/'", "endpoint", "TLS"},
		{"endpoint: 'http://10.0.0.1/'", "endpoint", "TLS"},
	} {
		text := tc.text
		switch {
		case strings.HasPrefix(text, "{"):
			text = "{project: crawlers, " + text[1:]
		case !strings.HasPrefix(text, "project"):
			text = "project: crawlers\n" + text
		}
		_, err := parse(t, text)
		if err != nil && strings.Contains(err.Error(), "netip") {
			t.Errorf("%.60s: %v, which is how the library says it", tc.text, err)
		}
		if err == nil || !strings.Contains(err.Error(), Type+"."+tc.key+": ") || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), `provider "test"`) {
			t.Errorf("%.60s: %v, want it to name %q and say %q", tc.text, err, tc.key, tc.says)
		}
	}
}

func TestAPasswordInAnEndpointIsNotRepeated(t *testing.T) {
	for _, endpoint := range []string{"https://me:sentinel@a/", "https://me:sentinel%zz@a/"} {
		if _, err := parse(t, fmt.Sprintf("{project: crawlers, endpoint: %q}", endpoint)); err == nil || strings.Contains(err.Error(), "sentinel") {
			t.Errorf("%v", err)
		}
	}
}
