package export

import (
	"net/url"
	"os"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// variants are a variable for all signals and the one for traces, which goes before it.
func variants(what string) []string {
	return []string{"OTEL_EXPORTER_OTLP_TRACES_" + what, "OTEL_EXPORTER_OTLP_" + what}
}

// others looks at what the SDK reads itself, for that says what is wrong in its own words, which quote secrets.
func (r *reader) others() {
	if name, v := r.first(variants("HEADERS")...); v != "" && !headers(v) {
		r.warn(name, "it is not a list of name=value with values as in a URL; what cannot be read of it is left out")
	}
	if name, v := r.first(variants("TIMEOUT")...); v != "" {
		r.number(name, 10_000, hour)
	}
	for _, what := range []string{"CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
		name, v := r.first(variants(what)...)
		if v == "" {
			continue
		}
		if f, err := os.Open(v); err != nil {
			r.warn(name, "the file cannot be read")
		} else {
			_ = f.Close()
		}
	}
}

// headers reports whether the SDK can read all of them.
func headers(list string) bool {
	for part := range strings.SplitSeq(list, ",") {
		name, value, found := strings.Cut(part, "=")
		if _, err := url.PathUnescape(value); err != nil || !found || !httpguts.ValidHeaderFieldName(strings.TrimSpace(name)) {
			return false
		}
	}
	return true
}
