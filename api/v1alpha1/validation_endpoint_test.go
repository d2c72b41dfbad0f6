package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestEndpointHost(t *testing.T) {
	good := func(name, reason, host string) row {
		return row{name: name, reason: reason, obj: external(set("endpoint.host", host))}
	}
	bad := func(name, reason, host string) row {
		return row{name: name, reason: reason, obj: external(set("endpoint.host", host)), field: "spec.endpoint.host",
			want: fmt.Sprintf("Invalid value: %q: host must be an IPv4 address", host)}
	}
	label63 := strings.Repeat("a", 63)
	name253 := strings.Join([]string{label63, label63, label63, strings.Repeat("a", 61)}, ".")
	runRows(t, []row{
		good("IPv4", "an address", "192.0.2.10"),
		good("IPv4 all zero", "the schema judges the form; the prober refuses to dial it", "0.0.0.0"),
		good("IPv4 loopback", "the schema judges the form; the prober refuses to dial it", "127.0.0.1"),
		good("IPv6 full", "an address", "2001:0db8:0000:0000:0000:0000:0000:0001"),
		good("IPv6 compressed", "an address", "2001:db8::1"),
		good("IPv6 upper case", "digits of an address have no case", "2001:DB8::A"),
		good("IPv6 loopback", "the schema judges the form; the prober refuses to dial it", "::1"),
		good("IPv6 with a dotted tail", "RFC 4291 2.2, form 3", "64:ff9b::192.0.2.1"),
		good("DNS name", "a name", "proxy-1.example.com"),
		good("single label", "a Service in the same namespace", "squid"),
		good("digits but for the last label", "3.pool is no number", "10.0.0.pool"),
		good("last label starts with a digit", "not a number", "a.1b"),
		good("last label looks like hex without its mark", "a name", "a.beef"),
		good("punycode", "an international name in its ASCII form", "xn--bcher-kva.example"),
		good("label of 63", "longest label", label63+".example"),
		good("name of 253", "longest name", name253),

		bad("IPv4-mapped IPv6", "an IPv4 address that rules for IPv4 would miss", "::ffff:192.0.2.1"),
		bad("IPv4-mapped IPv6 in hex", "an IPv4 address that rules for IPv4 would miss", "::ffff:c000:201"),
		bad("IPv4 with leading zeros", "some resolvers read octal", "010.0.0.1"),
		bad("IPv4 of three parts", "some resolvers read 1.2.0.3", "1.2.3"),
		bad("IPv4 of five parts", "no address", "1.2.3.4.5"),
		bad("IPv4 in hex", "some resolvers read 127.0.0.1", "0x7f000001"),
		bad("IPv4 part in hex", "some resolvers read an address", "127.0.0.0x1"),
		bad("IPv4 as one number", "some resolvers read an address", "2130706433"),
		bad("IPv4 out of range", "no address", "256.1.1.1"),
		bad("last label a number", "no top-level domain is one", "proxy.7"),
		bad("last label an empty hex number", "some parsers read 0", "proxy.0x"),
		bad("zone id", "means something on one machine only", "fe80::1%eth0"),
		bad("brackets", "belong to a URL", "[2001:db8::1]"),
		bad("IPv6 and port", "the port has its own field", "[2001:db8::1]:3128"),
		bad("IPv4 and port", "the port has its own field", "192.0.2.1:3128"),
		bad("name and port", "the port has its own field", "proxy.example.com:3128"),
		bad("CIDR", "a range is no address", "192.0.2.0/24"),
		bad("userinfo", "credentials go into auth", "user:pass@proxy.example.com"),
		bad("URL", "the scheme has its own field", "http://proxy.example.com"),
		bad("upper case", "names are compared as text", "Proxy.example.com"),
		bad("trailing dot", "names are compared as text", "proxy.example.com."),
		bad("underscore", "not a host name", "my_proxy.example.com"),
		bad("empty", "no host", ""),
		bad("blank", "no host", " "),
		bad("surrounding space", "no host name has it", " proxy.example.com"),
		bad("trailing newline", "the rule matches the whole value", "proxy.example.com\n"),
		bad("empty label", "no host name has it", "a..b"),
		bad("leading dash", "no host name has it", "-a.b"),
		bad("trailing dash", "no host name has it", "a-.b"),
		bad("dot", "no host", "."),
		bad("star", "one host, not many", "*.example.com"),
		bad("unicode", "use the ASCII form", "bücher.example"),
		bad("full-width digits", "some resolvers read an address", "１２７.0.0.1"),
		bad("label of 64", "longer than DNS allows", label63+"a.example"),
		{name: "name of 254", reason: "longer than DNS allows", obj: external(set("endpoint.host", name253+"a")),
			field: "spec.endpoint.host", want: "may not be more than 253"},
		{name: "absent", reason: "required", obj: external(unset("endpoint.host")), field: "spec.endpoint.host", want: "Required value"},
		{name: "number", reason: "a string", obj: external(set("endpoint.host", 1)), field: "spec.endpoint.host", want: "must be of type string"},
	})
}

func TestEndpointPortAndScheme(t *testing.T) {
	bad := func(value any, want string) row {
		return row{name: fmt.Sprintf("port %v", value), reason: "no port", obj: external(set("endpoint.port", value)),
			field: "spec.endpoint.port", want: want}
	}
	runRows(t, []row{
		{name: "port 1", reason: "lowest", obj: external(set("endpoint.port", 1))},
		{name: "port 65535", reason: "highest", obj: external(set("endpoint.port", 65535))},
		bad(0, "Invalid value: 0: "), bad(65536, "Invalid value: 65536: "), bad(-1, "Invalid value: -1: "),
		bad("80", "must be of type int"), bad(1.5, "must be of type int"), bad(true, "must be of type int"),
		{name: "port absent", reason: "required", obj: external(unset("endpoint.port")), field: "spec.endpoint.port", want: "Required value"},
		{name: "scheme http", reason: "the only one", obj: external(set("endpoint.scheme", "http"))},
		{name: "scheme https", reason: "not yet", obj: external(set("endpoint.scheme", "https")),
			field: "spec.endpoint.scheme", want: `Unsupported value: "https"`},
		{name: "scheme socks5", reason: "never", obj: external(set("endpoint.scheme", "socks5")),
			field: "spec.endpoint.scheme", want: `Unsupported value: "socks5"`},
		{name: "scheme empty", reason: "empty is not absent", obj: external(set("endpoint.scheme", "")),
			field: "spec.endpoint.scheme", want: `Unsupported value: ""`},
	})
}
