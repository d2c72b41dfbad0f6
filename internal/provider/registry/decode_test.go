package registry_test

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

type common struct {
	Zone string `json:"zone,omitempty"`
}

type pool struct {
	Listen netip.Addr `json:"listen"`
	Weight uint8      `json:"weight"`
}

type config struct {
	common
	Host    string            `json:"host"`
	Open    bool              `json:"open"`
	Share   float64           `json:"share"`
	Port    *int32            `json:"port"`
	Grace   time.Duration     `json:"grace"`
	Idle    metav1.Duration   `json:"idle"`
	Pools   []pool            `json:"pools"`
	Catalog map[string]pool   `json:"catalog"`
	Extra   map[string]string `json:"extra"`
	Code    string            `json:"-"`
	Untold  string
}

func parseBlock(t *testing.T, text string) provider.Block {
	t.Helper()
	b, err := registry.ParseBlock("local", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDecodeFills(t *testing.T) {
	port := int32(3128)
	got := config{Host: "default", Code: "kept", Extra: map[string]string{"kept": "yes"}}
	err := parseBlock(t, `
zone: z
open: true
share: 0.5
port: 3128
grace: 1m30s
idle: 5s
host: null
pools:
- {listen: 192.0.2.1, weight: 255}
- {listen: "2001:db8::1"}
catalog: {small: {weight: 1}}
`).Decode(&got)
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		common: common{Zone: "z"}, Host: "default", Open: true, Share: 0.5, Port: &port, Grace: 90 * time.Second,
		Idle:    metav1.Duration{Duration: 5 * time.Second},
		Pools:   []pool{{netip.MustParseAddr("192.0.2.1"), 255}, {Listen: netip.MustParseAddr("2001:db8::1")}},
		Catalog: map[string]pool{"small": {Weight: 1}}, Extra: map[string]string{"kept": "yes"}, Code: "kept",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDecodeReportsEveryProblemWithItsLine(t *testing.T) {
	err := parseBlock(t, `host: 1
Open: true
open: yep
share: x
port: 99999999999
grace: 5
idle: 1 week
pools:
- {listen: 1.2.3, weight: 256}
- listen: 192.0.2.1
  wait: 1
catalog: []
extra: {a: true}
untold: x
Untold: x
Code: x
`).Decode(&config{})
	if err == nil {
		t.Fatal("accepted")
	}
	want := []string{
		`line 1: provider "test": local.host: want a string; put it in quotes`,
		`line 2: provider "test": local.Open: unknown key; keys are case-sensitive, it is called "open"`,
		`line 3: provider "test": local.open: want true or false`,
		`line 4: provider "test": local.share: want a number`,
		`line 5: provider "test": local.port: want a whole decimal number of at most 32 bits`,
		`line 6: provider "test": local.grace: want a string; put it in quotes`,
		`line 7: provider "test": local.idle: time: unknown unit " week" in duration "1 week"`,
		`line 9: provider "test": local.pools[0].listen: ParseAddr("1.2.3"): IPv4 address too short`,
		`line 9: provider "test": local.pools[0].weight: want a whole decimal number from 0, of at most 8 bits`,
		`line 11: provider "test": local.pools[1].wait: unknown key`,
		`line 12: provider "test": local.catalog: want a mapping of keys to values`,
		`line 13: provider "test": local.extra.a: want a string; put it in quotes`,
		`line 14: provider "test": local.untold: unknown key`,
		`line 15: provider "test": local.Untold: unknown key`,
		`line 16: provider "test": local.Code: unknown key`,
	}
	if got := strings.Split(err.Error(), "\n"); !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestDecodeWantsAStruct(t *testing.T) {
	b := parseBlock(t, "{}")
	for _, into := range []any{nil, config{}, new(string), (*config)(nil)} {
		if err := b.Decode(into); err == nil {
			t.Errorf("Decode(%T) succeeded", into)
		}
	}
}

func TestErrorfFindsTheLine(t *testing.T) {
	b := parseBlock(t, "host: a\npools:\n- listen: x\n- listen: y\n  weight: 3\n")
	for key, want := range map[string]string{
		"":                 `line 1: provider "test": local: no good`,
		"host":             `line 1: provider "test": local.host: no good`,
		"pools[1].weight":  `line 5: provider "test": local.pools[1].weight: no good`,
		"pools[1].missing": `line 4: provider "test": local.pools[1].missing: no good`,
		"pools[7].listen":  `line 3: provider "test": local.pools[7].listen: no good`,
		"missing":          `line 1: provider "test": local.missing: no good`,
	} {
		if got := b.Errorf(key, "no %s", "good").Error(); got != want {
			t.Errorf("Errorf(%q) = %s, want %s", key, got, want)
		}
	}
}
