package main

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/tracing/otlptest"
)

// tree finds spans by where they stand.
type tree struct {
	all  []otlptest.Span
	byID map[string]otlptest.Span
	// types are those of the provider entries, by their names.
	types map[string]string
	// client is the ID, in hexadecimal digits, of the span that a client of the API has sent with its requests.
	client string
}

func treeOf(spans []otlptest.Span, types map[string]string, client string) *tree {
	t := &tree{all: spans, byID: map[string]otlptest.Span{}, types: types, client: client}
	for _, s := range spans {
		t.byID[string(s.GetSpanId())] = s
	}
	return t
}

// path is the names from the root of a span's trace down to it; those of spans that name a provider have its type.
func (t *tree) path(s otlptest.Span) string {
	name := s.GetName()
	if entry := value(s, "provider.name"); entry != "" {
		name += "[" + t.types[entry] + "]"
	}
	switch above := t.byID[string(s.GetParentSpanId())]; {
	case above.Span != nil:
		return t.path(above) + " > " + name
	case hex.EncodeToString(s.GetParentSpanId()) == t.client && t.client != "":
		return "client > " + name
	case len(s.GetParentSpanId()) > 0:
		return "? > " + name
	}
	return name
}

// entry is the provider of a span or of the nearest one above, "" for none.
func (t *tree) entry(s otlptest.Span) string {
	for s.Span != nil {
		if entry := value(s, "provider.name"); entry != "" {
			return entry
		}
		s = t.byID[string(s.GetParentSpanId())]
	}
	return ""
}

// seen is what a test may want of a span: where it stands, below which provider, and what came of it.
type seen struct{ path, entry, result string }

// anywhere stands for whatever is above a span.
const anywhere = "… > "

// missing returns what of wanted is not there. An empty entry or result is any.
func (t *tree) missing(wanted []seen) (out []seen) {
	there := map[seen]bool{}
	for _, s := range t.all {
		path, entry, result := t.path(s), t.entry(s), value(s, "provider.result")
		if result == "" {
			result = codeOf(s)
		}
		for _, e := range []string{entry, ""} {
			for _, at := range []string{path, anywhere + s.GetName()} {
				there[seen{at, e, result}], there[seen{at, e, ""}] = true, true
			}
		}
	}
	for _, w := range wanted {
		if !there[w] {
			out = append(out, w)
		}
	}
	return out
}

// paths counts the spans by where they stand and what came of them.
func (t *tree) paths() (out []string) {
	n := map[string]int{}
	for _, s := range t.all {
		n[strings.TrimSpace(fmt.Sprint(t.path(s), " ", t.entry(s), " ", value(s, "provider.result"), " ", codeOf(s)))]++
	}
	for path, times := range n {
		out = append(out, fmt.Sprintf("%s: %d", path, times))
	}
	slices.Sort(out)
	return out
}

// codeOf is a span's status: Unset, Ok or Error.
func codeOf(s otlptest.Span) string {
	switch s.GetStatus().GetCode() {
	case traces.Status_STATUS_CODE_OK:
		return "Ok"
	case traces.Status_STATUS_CODE_ERROR:
		return "Error"
	default:
		return "Unset"
	}
}

// value is a span's attribute as text, "" where it has none.
func value(s otlptest.Span, key string) string {
	for _, kv := range s.GetAttributes() {
		if kv.GetKey() == key {
			return textOf(kv.GetValue())
		}
	}
	return ""
}

func textOf(v *common.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *common.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	default:
		return fmt.Sprintf("unexpected %T", v)
	}
}

// keys are the names of a span's attributes, sorted.
func keys(s otlptest.Span) (out []string) {
	for _, kv := range s.GetAttributes() {
		out = append(out, kv.GetKey())
	}
	slices.Sort(out)
	return out
}
