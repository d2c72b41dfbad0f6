package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestCloudInit(t *testing.T) {
	runRows(t, []row{
		{name: "inline", reason: "one of the two", obj: managed(set("cloudInit.inline", "#cloud-config\n"))},
		{name: "secretRef", reason: "one of the two; the key defaults", obj: managed(set("cloudInit.secretRef.name", "ud"))},
		{name: "secretRef with key", reason: "any Secret key", obj: managed(set("cloudInit.secretRef", map[string]any{"name": "a.b-c", "key": ".User_data-1.yaml"}))},
		{name: "neither", reason: "says nothing", obj: managed(set("cloudInit", map[string]any{})),
			field: "spec.cloudInit", want: "exactly one of inline and secretRef"},
		{name: "both", reason: "which one?", obj: managed(set("cloudInit", map[string]any{"inline": "x", "secretRef": map[string]any{"name": "a"}})),
			field: "spec.cloudInit", want: "exactly one of inline and secretRef"},
		{name: "inline empty", reason: "empty is not absent", obj: managed(set("cloudInit.inline", "")),
			field: "spec.cloudInit.inline", want: "at least 1"},
		{name: "inline 256 KiB", reason: "longest", obj: managed(set("cloudInit.inline", strings.Repeat("x", 256<<10)))},
		{name: "inline 256 KiB and one", reason: "too long", obj: managed(set("cloudInit.inline", strings.Repeat("x", 256<<10+1))),
			field: "spec.cloudInit.inline", want: "may not be more than 262144"},
		{name: "secretRef without name", reason: "names nothing", obj: managed(set("cloudInit.secretRef", map[string]any{})),
			field: "spec.cloudInit.secretRef.name", want: "Required value"},
		{name: "secretRef with key alone", reason: "names nothing", obj: managed(set("cloudInit.secretRef.key", "k")),
			field: "spec.cloudInit.secretRef.name", want: "Required value"},
		{name: "name empty", reason: "no Secret is called so", obj: managed(set("cloudInit.secretRef.name", "")),
			field: "spec.cloudInit.secretRef.name", want: `Invalid value: ""`},
		{name: "name upper case", reason: "no Secret is called so", obj: managed(set("cloudInit.secretRef.name", "UD")),
			field: "spec.cloudInit.secretRef.name", want: `Invalid value: "UD"`},
		{name: "name with an empty label", reason: "no Secret is called so", obj: managed(set("cloudInit.secretRef.name", "a..b")),
			field: "spec.cloudInit.secretRef.name", want: `Invalid value: "a..b"`},
		{name: "key empty", reason: "empty is not absent", obj: managed(set("cloudInit.secretRef", map[string]any{"name": "a", "key": ""})),
			field: "spec.cloudInit.secretRef.key", want: `Invalid value: ""`},
		{name: "key with a slash", reason: "no Secret has it", obj: managed(set("cloudInit.secretRef", map[string]any{"name": "a", "key": "a/b"})),
			field: "spec.cloudInit.secretRef.key", want: `Invalid value: "a/b"`},
		{name: "key of two dots", reason: "no Secret has it", obj: managed(set("cloudInit.secretRef", map[string]any{"name": "a", "key": ".."})),
			field: "spec.cloudInit.secretRef.key", want: `Invalid value: ".."`},
		{name: "key 254", reason: "too long", obj: managed(set("cloudInit.secretRef", map[string]any{"name": "a", "key": strings.Repeat("k", 254)})),
			field: "spec.cloudInit.secretRef.key", want: "may not be more than 253"},
	})
}

func TestAuth(t *testing.T) {
	runRows(t, []row{
		{name: "named", reason: "a Secret's name", obj: managed(set("auth.secretRef.name", "creds.eu-1"))},
		{name: "name 253", reason: "longest", obj: managed(set("auth.secretRef.name", strings.Repeat("a", 253)))},
		{name: "name 254", reason: "too long", obj: managed(set("auth.secretRef.name", strings.Repeat("a", 254))),
			field: "spec.auth.secretRef.name", want: "may not be more than 253"},
		{name: "empty", reason: "names nothing", obj: managed(set("auth", map[string]any{})),
			field: "spec.auth.secretRef", want: "Required value"},
		{name: "secretRef empty", reason: "names nothing", obj: managed(set("auth.secretRef", map[string]any{})),
			field: "spec.auth.secretRef.name", want: "Required value"},
		{name: "name empty", reason: "no Secret is called so", obj: managed(set("auth.secretRef.name", "")),
			field: "spec.auth.secretRef.name", want: `Invalid value: ""`},
		{name: "other namespace", reason: "Secrets are read in the Proxy's namespace", obj: managed(set("auth.secretRef.name", "ns/creds")),
			field: "spec.auth.secretRef.name", want: `Invalid value: "ns/creds"`},
	})
}

func TestAttributes(t *testing.T) {
	many := func(n int) map[string]any {
		out := map[string]any{}
		for i := range n {
			out[fmt.Sprintf("key-%d", i)] = "v"
		}
		return out
	}
	key := func(name, key string) row {
		return row{name: "key " + name, reason: "shaped like a label key", obj: managed(set("attributes", map[string]any{key: "v"}))}
	}
	badKey := func(name, key string) row {
		return row{name: "key " + name, reason: "not shaped like a label key",
			obj:   managed(set("attributes", map[string]any{key: "v", "fine": "v"})),
			field: "spec.attributes", want: "attribute keys must be shaped like label keys: [prefix/]name, " +
				"the name at most 63 letters, digits, '-', '_' and '.'; wrong: '" + key + "'"}
	}
	value := func(name, value string) row {
		return row{name: "value " + name, reason: "shaped like a label value", obj: managed(set("attributes.tier", value))}
	}
	badValue := func(name string, value any, want string) row {
		return row{name: "value " + name, reason: "not shaped like a label value",
			obj: managed(set("attributes.tier", value)), field: "spec.attributes.tier", want: want}
	}
	runRows(t, []row{
		{name: "none", reason: "an empty map", obj: managed(set("attributes", map[string]any{}))},
		{name: "32", reason: "most", obj: managed(set("attributes", many(32)))},
		{name: "33", reason: "too many", obj: managed(set("attributes", many(33))), field: "spec.attributes", want: "must have at most 32 items"},
		{name: "list", reason: "a map", obj: managed(set("attributes", []any{"a"})), field: "spec.attributes", want: "must be of type object"},
		{name: "value null", reason: "null means absent", obj: managed(set("attributes.tier", nil))},
		key("plain", "tier"), key("mixed", "A-b_c.9"), key("with prefix", "crawl.example.com/tier"),
		key("63", strings.Repeat("k", 63)), key("long prefix", strings.Repeat("a.", 126)+"a/k"),
		badKey("empty", ""), badKey("64", strings.Repeat("k", 64)), badKey("empty name", "example.com/"),
		badKey("empty prefix", "/tier"), badKey("two slashes", "a/b/c"), badKey("space", "a b"), badKey("leading dash", "-a"),
		badKey("trailing dot", "a."), badKey("upper-case prefix", "Example.com/tier"), badKey("unicode", "größe"),
		badKey("prefix 254", strings.Repeat("a", 254)+"/k"),
		value("empty", ""), value("mixed", "A-b_c.9"), value("63", strings.Repeat("v", 63)),
		badValue("64", strings.Repeat("v", 64), "may not be more than 63"), badValue("space", "a b", `Invalid value: "a b"`),
		badValue("leading dash", "-a", `Invalid value: "-a"`), badValue("trailing dot", "a.", `Invalid value: "a."`),
		badValue("slash", "a/b", `Invalid value: "a/b"`), badValue("unicode", "größe", `Invalid value: "größe"`),
		badValue("number", 5, "must be of type string"), badValue("boolean", true, "must be of type string"),
		{name: "two bad keys", reason: "one message, about one of them", obj: managed(set("attributes", map[string]any{"a b": "v", "c d": "v"})),
			field: "spec.attributes", want: "wrong: '"},
	})
}

func TestNumbersAndFlags(t *testing.T) {
	bad := func(field string, value any, want string) row {
		return row{name: fmt.Sprintf("%s %v", field, value), reason: "out of bounds or of another type",
			obj: managed(set(field, value)), field: "spec." + field, want: want}
	}
	good := func(field string, value any) row {
		return row{name: fmt.Sprintf("%s %v", field, value), reason: "within bounds", obj: managed(set(field, value))}
	}
	runRows(t, []row{
		good("port", 1), good("port", 3128), good("port", 65535),
		bad("port", 0, "greater than or equal to 1"), bad("port", -1, "greater than or equal to 1"),
		bad("port", 65536, "less than or equal to 65535"), bad("port", int64(1)<<32+80, "less than or equal to 65535"),
		bad("port", "80", "must be of type int"), bad("port", 1.5, "must be of type int"),
		good("maxConcurrentLeases", 1), good("maxConcurrentLeases", 1000000),
		bad("maxConcurrentLeases", 0, "greater than or equal to 1"), bad("maxConcurrentLeases", -1, "greater than or equal to 1"),
		bad("maxConcurrentLeases", 1000001, "less than or equal to 1000000"), bad("maxConcurrentLeases", "2", "must be of type int"),
		good("cordoned", true), good("cordoned", false), bad("cordoned", "true", "must be of type boolean"),
		good("replaceUnhealthyAfter", "1m"), good("replaceUnhealthyAfter", "60s"), good("replaceUnhealthyAfter", "720h"),
		good("replaceUnhealthyAfter", "2592000s"),
		bad("replaceUnhealthyAfter", "59s", `"59s": replaceUnhealthyAfter must be between 1m and 720h`),
		bad("replaceUnhealthyAfter", "59.999s", `"59.999s": replaceUnhealthyAfter must be between 1m and 720h`),
		bad("replaceUnhealthyAfter", "721h", `"721h": replaceUnhealthyAfter must be between 1m and 720h`),
		bad("replaceUnhealthyAfter", "720h1ms", `"720h1ms": replaceUnhealthyAfter must be between 1m and 720h`),
		bad("replaceUnhealthyAfter", "0s", `"0s": replaceUnhealthyAfter must be between 1m and 720h`),
		bad("replaceUnhealthyAfter", "never", `"never": must be a duration such as`),
		bad("replaceUnhealthyAfter", 60, "must be of type string"),
	})
}
