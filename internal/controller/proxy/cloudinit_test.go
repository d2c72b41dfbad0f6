package proxy

import (
	"strings"
	"testing"
)

func TestRender(t *testing.T) {
	values := map[string]string{varPort: "3128", varUsername: "crawler", varPassword: "s3cr-t~._"}
	for name, c := range map[string]struct {
		template, want string
		values         map[string]string
		used           int
		err, secret    string
	}{
		"nothing to fill in":         {template: "#cloud-config\n", want: "#cloud-config\n", values: values},
		"all three":                  {template: "${PROXY_PORT} ${PROXY_USERNAME}:${PROXY_PASSWORD}", want: "3128 crawler:s3cr-t~._", values: values, used: 3},
		"twice":                      {template: "${PROXY_PORT}${PROXY_PORT}", want: "31283128", values: values, used: 1},
		"escaped":                    {template: "$${PROXY_PORT}", want: "${PROXY_PORT}", values: values},
		"other variables stay":       {template: "${HOME} $PROXY_PORT ${PROXY_PORTS} ${proxy_port}", want: "${HOME} $PROXY_PORT ${PROXY_PORTS} ${proxy_port}", values: values},
		"other escapes stay":         {template: "$${HOME}", want: "$${HOME}", values: values},
		"no credentials":             {template: "${PROXY_PASSWORD}", values: map[string]string{varPort: "1"}, err: "PROXY_PASSWORD"},
		"value a shell would read":   {template: "${PROXY_PASSWORD}", values: map[string]string{varPassword: "a;rm -rf /"}, err: "PROXY_PASSWORD", secret: "rm -rf"},
		"value YAML would read":      {template: "${PROXY_PASSWORD}", values: map[string]string{varPassword: "a: b"}, err: "PROXY_PASSWORD", secret: "a: b"},
		"value too long":             {template: "${PROXY_PASSWORD}", values: map[string]string{varPassword: strings.Repeat("x", 129)}, err: "PROXY_PASSWORD", secret: "xxx"},
		"bad value that is not used": {template: "x", want: "x", values: map[string]string{varPassword: "a b"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, used, err := render(c.template, c.values)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || (c.secret != "" && strings.Contains(err.Error(), c.secret)) {
					t.Fatalf("error %v", err)
				}
				return
			}
			if err != nil || got != c.want || len(used) != c.used {
				t.Fatalf("%q, %d used, %v", got, len(used), err)
			}
		})
	}
}

func TestCut(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                  "plain",
		"line\nbreak\x00":        "line break ",
		"bad \xff byte":          "bad \uFFFD byte",
		strings.Repeat("ä", 600): strings.Repeat("ä", 510) + "…",
	} {
		if got := cut(in, 1024); got != want || len(got) > 1024 {
			t.Errorf("cut(%.20q) = %.20q, %d bytes", in, got, len(got))
		}
	}
}
