package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestMode(t *testing.T) {
	runRows(t, []row{
		{name: "absent", reason: "mode defaults to Managed", obj: managed()},
		{name: "null", reason: "null means the default", obj: managed(set("mode", nil))},
		{name: "Managed", reason: "spelt out", obj: managed(set("mode", "Managed"))},
		{name: "External", reason: "spelt out", obj: external()},
		{name: "unknown", reason: "only two modes exist", obj: managed(set("mode", "Auto")),
			field: "spec.mode", want: `Unsupported value: "Auto"`},
		{name: "lower case", reason: "modes are spelt in one way", obj: managed(set("mode", "managed")),
			field: "spec.mode", want: `Unsupported value: "managed"`},
		{name: "empty", reason: "empty is not absent", obj: managed(set("mode", "")),
			field: "spec.mode", want: `Unsupported value: ""`},
		{name: "External without its mode", reason: "the default mode is Managed", obj: external(unset("mode"), set("provider", "x")),
			field: "spec.endpoint", want: "forbidden when mode is Managed"},
	})
}

func TestProvider(t *testing.T) {
	bad := func(name, reason, value string) row {
		return row{name: name, reason: reason, obj: managed(set("provider", value)), field: "spec.provider",
			want: fmt.Sprintf("Invalid value: %q", value)}
	}
	runRows(t, []row{
		{name: "label", reason: "a DNS-1123 label", obj: managed(set("provider", "gcp-eu-1"))},
		{name: "one character", reason: "shortest", obj: managed(set("provider", "a"))},
		{name: "starts with a digit", reason: "DNS-1123 allows it", obj: managed(set("provider", "1and1"))},
		{name: "63 characters", reason: "longest", obj: managed(set("provider", strings.Repeat("a", 63)))},
		{name: "64 characters", reason: "too long for a label", obj: managed(set("provider", strings.Repeat("a", 64))),
			field: "spec.provider", want: "may not be more than 63"},
		{name: "absent", reason: "a Managed proxy needs one", obj: managed(unset("provider")),
			field: "spec.provider", want: "required when mode is Managed"},
		{name: "null", reason: "null means absent", obj: managed(set("provider", nil)),
			field: "spec.provider", want: "required when mode is Managed"},
		{name: "on External", reason: "nobody keeps an External proxy", obj: external(set("provider", "local")),
			field: "spec.provider", want: "forbidden when mode is External"},
		{name: "null on External", reason: "null means absent", obj: external(set("provider", nil))},
		{name: "number", reason: "a string", obj: managed(set("provider", 5)), field: "spec.provider", want: "must be of type string"},
		bad("empty", "empty is not absent", ""),
		bad("upper case", "labels are lower case", "GCP"),
		bad("dot", "a label, not a name", "a.b"),
		bad("underscore", "not in DNS-1123", "a_b"),
		bad("leading dash", "DNS-1123", "-a"),
		bad("trailing dash", "DNS-1123", "a-"),
		bad("space", "DNS-1123", "a b"),
		bad("trailing newline", "the pattern matches the whole value", "a\n"),
		bad("unicode", "ASCII only", "bücher"),
	})
}

func TestNullParents(t *testing.T) {
	runRows(t, []row{
		{name: "no spec", reason: "a Proxy without a spec asks for nothing", obj: managed(func(o object) { delete(o, "spec") }),
			field: "spec", want: "Required value"},
		{name: "spec null", reason: "null means absent", obj: managed(top("spec", nil)), field: "spec", want: "Required value"},
		{name: "spec empty", reason: "the mode defaults, the provider does not", obj: managed(top("spec", map[string]any{})),
			field: "spec.provider", want: "required when mode is Managed"},
		{name: "spec a list", reason: "an object", obj: managed(top("spec", []any{})), field: "spec", want: "must be of type object"},
		{name: "endpoint null on Managed", reason: "null means absent", obj: managed(set("endpoint", nil))},
		{name: "endpoint null on External", reason: "null means absent", obj: external(set("endpoint", nil)),
			field: "spec.endpoint", want: "required when mode is External"},
		{name: "endpoint.host null", reason: "null means absent", obj: external(set("endpoint.host", nil)),
			field: "spec.endpoint.host", want: "Required value"},
		{name: "endpoint.port null", reason: "null means absent", obj: external(set("endpoint.port", nil)),
			field: "spec.endpoint.port", want: "Required value"},
		{name: "endpoint.scheme null", reason: "null means the default", obj: external(set("endpoint.scheme", nil))},
		{name: "placement null", reason: "null means absent", obj: managed(set("placement", nil))},
		{name: "placement null on External", reason: "null means absent", obj: external(set("placement", nil))},
		{name: "placement members null", reason: "null means absent", obj: managed(set("placement.zone", nil), set("placement.image", nil))},
		{name: "cloudInit null", reason: "null means absent", obj: managed(set("cloudInit", nil))},
		{name: "cloudInit.secretRef null", reason: "null means absent", obj: managed(set("cloudInit.secretRef", nil)),
			field: "spec.cloudInit", want: "exactly one of inline and secretRef"},
		{name: "cloudInit.secretRef null beside inline", reason: "null means absent",
			obj: managed(set("cloudInit.secretRef", nil), set("cloudInit.inline", "#cloud-config"))},
		{name: "auth null", reason: "null means absent", obj: managed(set("auth", nil))},
		{name: "auth.secretRef null", reason: "null means absent", obj: managed(set("auth.secretRef", nil)),
			field: "spec.auth.secretRef", want: "Required value"},
		{name: "auth.secretRef.name null", reason: "null means absent", obj: managed(set("auth.secretRef.name", nil)),
			field: "spec.auth.secretRef.name", want: "Required value"},
		{name: "healthCheck null", reason: "all defaults", obj: managed(set("healthCheck", nil))},
		{name: "healthCheck.tls null", reason: "no adjustment", obj: managed(set("healthCheck.tls", nil))},
		{name: "healthCheck members null", reason: "null means the default", obj: managed(set("healthCheck.url", nil),
			set("healthCheck.interval", nil), set("healthCheck.timeout", nil), set("healthCheck.expectedStatus", nil))},
		{name: "timeout over the default interval with interval null", reason: "null means the default of 30s",
			obj:   managed(set("healthCheck.interval", nil), set("healthCheck.timeout", "31s")),
			field: "spec.healthCheck.timeout", want: "timeout 31s must not be longer than interval 30s"},
		{name: "port null", reason: "null means the default", obj: managed(set("port", nil))},
		{name: "port null on External", reason: "null means absent", obj: external(set("port", nil))},
		{name: "attributes null", reason: "null means none", obj: managed(set("attributes", nil))},
		{name: "cordoned null", reason: "null means false", obj: managed(set("cordoned", nil))},
		{name: "replaceUnhealthyAfter null on External", reason: "null means absent", obj: external(set("replaceUnhealthyAfter", nil))},
	})
}

func TestFieldsOfTheOtherMode(t *testing.T) {
	forbidden := func(field string, value any) row {
		return row{name: "External with " + field, reason: "nothing here acts on it", obj: external(set(field, value)),
			field: "spec." + field, want: field + " is forbidden when mode is External"}
	}
	common := []edit{
		set("attributes", map[string]any{"tier": "gold"}), set("maxConcurrentLeases", 2), set("cordoned", true),
		set("auth.secretRef.name", "creds"), set("healthCheck.url", "http://example.com/"),
	}
	runRows(t, []row{
		forbidden("provider", "local"),
		forbidden("placement", map[string]any{"zone": "a"}),
		forbidden("placement", map[string]any{}),
		forbidden("cloudInit", map[string]any{"inline": "x"}),
		forbidden("port", 3128),
		forbidden("replaceUnhealthyAfter", "5m"),
		{name: "Managed with endpoint", reason: "the operator decides the address",
			obj:   managed(set("endpoint", map[string]any{"host": "192.0.2.1", "port": 80})),
			field: "spec.endpoint", want: "endpoint is forbidden when mode is Managed"},
		{name: "External without endpoint", reason: "nothing to probe", obj: external(unset("endpoint")),
			field: "spec.endpoint", want: "endpoint is required when mode is External"},
		{name: "Managed with what both modes have", reason: "allowed", obj: managed(common...)},
		{name: "External with what both modes have", reason: "allowed", obj: external(common...)},
		{name: "Managed with everything", reason: "allowed", obj: managed(append(common,
			set("placement", map[string]any{"region": "europe-west1", "zone": "europe-west1-b", "machineType": "e2-micro",
				"image": "projects/debian-cloud/global/images/family/debian-12"}),
			set("cloudInit.inline", "#cloud-config"), set("port", 8080), set("replaceUnhealthyAfter", "10m"))...)},
	})
}

func TestPlacement(t *testing.T) {
	var rows []row
	for _, field := range []string{"region", "zone", "machineType"} {
		path := "placement." + field
		rows = append(rows,
			row{name: field + " plain", reason: "a provider's own name", obj: managed(set(path, "Eu_west-1.b"))},
			row{name: field + " 253", reason: "longest", obj: managed(set(path, strings.Repeat("a", 253)))},
			row{name: field + " 254", reason: "too long", obj: managed(set(path, strings.Repeat("a", 254))), field: "spec." + path, want: "may not be more than 253"},
			row{name: field + " empty", reason: "empty is not absent", obj: managed(set(path, "")), field: "spec." + path, want: `Invalid value: ""`},
			row{name: field + " slash", reason: "would leave its place in a resource path", obj: managed(set(path, "../x")), field: "spec." + path, want: `Invalid value: "../x"`})
	}
	runRows(t, append(rows,
		row{name: "empty", reason: "the provider decides", obj: managed(set("placement", map[string]any{}))},
		row{name: "image digest", reason: "an image address", obj: managed(set("placement.image", "registry.example.com:5000/squid@sha256:0123"))},
		row{name: "image with a space", reason: "no address has one", obj: managed(set("placement.image", "a b")),
			field: "spec.placement.image", want: `Invalid value: "a b"`},
		row{name: "image empty", reason: "empty is not absent", obj: managed(set("placement.image", "")),
			field: "spec.placement.image", want: `Invalid value: ""`},
		row{name: "image 1025", reason: "too long", obj: managed(set("placement.image", strings.Repeat("a", 1025))),
			field: "spec.placement.image", want: "may not be more than 1024"},
	))
}
