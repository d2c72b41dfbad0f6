package export

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// What spans are sent by.
const (
	OTLP    = "otlp"
	Console = "console"
	none    = "none"
)

// Protocols of OTLP.
const (
	GRPC     = "grpc"
	Protobuf = "http/protobuf"
	JSON     = "http/json"
)

// Settings are what the environment asks for.
type Settings struct {
	// Exporters are OTLP and Console, each at most once; none means that spans are not sent, and nothing else counts.
	Exporters []string
	// Protocol of OTLP: GRPC, Protobuf or JSON.
	Protocol string
	// Endpoint of OTLP: http or https, with a path for those by HTTP. Nil is the protocol's default on this host.
	Endpoint *url.URL
	Sampler  Sampler
	Batch    Batch
	// Warnings name each value that was not used, and why. They quote nothing that may be a secret.
	Warnings []string
}

// Env looks up a variable, as os.LookupEnv does.
type Env func(name string) (value string, ok bool)

// reader reads variables. One that is empty or blank counts as not set, as OpenTelemetry has it.
type reader struct {
	env      Env
	warnings []string
}

func (r *reader) get(name string) string {
	v, _ := r.env(name)
	return strings.TrimSpace(v)
}

// first returns the first of the variables that is set, and its name.
func (r *reader) first(names ...string) (name, value string) {
	for _, name := range names {
		if v := r.get(name); v != "" {
			return name, v
		}
	}
	return "", ""
}

func (r *reader) warn(name, format string, args ...any) {
	r.warnings = append(r.warnings, name+": "+fmt.Sprintf(format, args...))
}

const (
	varDisabled  = "OTEL_SDK_DISABLED"
	varExporter  = "OTEL_TRACES_EXPORTER"
	varProtocol  = "OTEL_EXPORTER_OTLP_PROTOCOL"
	varTProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	varEndpoint  = "OTEL_EXPORTER_OTLP_ENDPOINT"
	varTEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	varInsecure  = "OTEL_EXPORTER_OTLP_INSECURE"
	varTInsecure = "OTEL_EXPORTER_OTLP_TRACES_INSECURE"
	varSampler   = "OTEL_TRACES_SAMPLER"
	varArgument  = "OTEL_TRACES_SAMPLER_ARG"
)

// Read reads the variables. Spans are sent when OTEL_TRACES_EXPORTER says so, or when an endpoint is given.
func Read(env Env) Settings {
	r := &reader{env: env}
	switch v := r.get(varDisabled); strings.ToLower(v) {
	case "", "false":
	case "true":
		return Settings{}
	default:
		r.warn(varDisabled, "%q is neither true nor false, and counts as false", v)
	}
	var s Settings
	s.Protocol = r.protocol()
	var usable bool
	s.Endpoint, usable = r.endpoint(s.Protocol)
	s.Exporters = r.exporters(s.Endpoint != nil)
	if !usable {
		// Another place than the one that was meant would get what is not meant for it.
		s.Exporters = slices.DeleteFunc(s.Exporters, func(e string) bool { return e == OTLP })
	}
	if len(s.Exporters) > 0 {
		s.Sampler, s.Batch = r.sampler(), r.batch()
		r.others()
	}
	s.Warnings = r.warnings
	return s
}

func (r *reader) exporters(endpoint bool) (out []string) {
	v := r.get(varExporter)
	if v == "" {
		if endpoint {
			return []string{OTLP}
		}
		return nil
	}
	unknown := false
	for part := range strings.SplitSeq(v, ",") {
		switch e := strings.ToLower(strings.TrimSpace(part)); e {
		case OTLP, Console:
			if !slices.Contains(out, e) {
				out = append(out, e)
			}
		case none, "":
		default:
			unknown = true
			r.warn(varExporter, "%q is not known: want otlp, console or none", part)
		}
	}
	if unknown && len(out) == 0 && endpoint {
		return []string{OTLP}
	}
	return out
}

func (r *reader) protocol() string {
	for _, name := range []string{varTProtocol, varProtocol} {
		v := r.get(name)
		switch p := strings.ToLower(v); p {
		case "":
		case GRPC, Protobuf, JSON:
			return p
		default:
			r.warn(name, "%q is not known: want grpc, http/protobuf or http/json", v)
		}
	}
	return Protobuf
}

// tracesPath is where OTLP by HTTP takes spans below a general endpoint.
const tracesPath = "v1/traces"

// endpoint returns nil where none is given. usable is false if one is given that cannot be meant.
func (r *reader) endpoint(protocol string) (u *url.URL, usable bool) {
	name, v := r.first(varTEndpoint, varEndpoint)
	if v == "" {
		return nil, true
	}
	if !strings.Contains(v, "://") {
		scheme := "http://"
		if _, insecure := r.first(varTInsecure, varInsecure); strings.EqualFold(insecure, "false") {
			scheme = "https://"
		}
		r.warn(name, "it has no scheme; taken for one with %s", scheme)
		v = scheme + v
	}
	u, err := url.Parse(v)
	switch {
	case err != nil: // what url says quotes it, with the password that may be in it
		r.warn(name, "it is not a URL; no spans are sent")
		return nil, false
	case u.Scheme != "http" && u.Scheme != "https":
		r.warn(name, "its scheme is %q: want http or https; no spans are sent", u.Scheme)
		return nil, false
	case u.Hostname() == "":
		r.warn(name, "it names no host; no spans are sent")
		return nil, false
	}
	if protocol != GRPC && name == varEndpoint {
		u = u.JoinPath(tracesPath)
	}
	return u, true
}
