package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

// discreet returns ctx for the rest of a pass that knows what the instance is made from. Backends quote what they do not like:
// neither a condition (see condition) nor a line that is logged from here on shows credentials or cloud-init.
func (ps *pass) discreet(ctx context.Context) context.Context { return ps.discreetAbout(ctx, ps) }

// discreetToo is discreet for a pass that does not act on what the instance should be made from. What cannot be read now is
// not known to anybody here.
func (ps *pass) discreetToo(ctx context.Context) context.Context {
	look := *ps
	_ = look.resolveDesired(ctx)
	return ps.discreetAbout(ctx, &look)
}

func (ps *pass) discreetAbout(ctx context.Context, known *pass) context.Context {
	var words []string
	if known.creds != nil {
		words = []string{known.creds.Password}
	}
	if len(words) == 0 && known.want.cloudInit == "" {
		return ctx
	}
	ps.secrets = message.NewSecrets(words, []string{known.want.cloudInit})
	// What shuts a gate is told to others, too.
	ctx = instrument.WithSecrets(ctx, ps.secrets)
	return tracing.Beneath(ctx, func(sink logr.LogSink) logr.LogSink {
		if deeper, ok := sink.(logr.CallDepthLogSink); ok {
			sink = deeper.WithCallDepth(1)
		}
		return &discreetSink{sink, ps.secrets}
	})
}

// discreetSink hides secrets in what is logged.
type discreetSink struct {
	logr.LogSink
	secrets *message.Secrets
}

// Init does nothing: the sink below has long been in use.
func (*discreetSink) Init(logr.RuntimeInfo) {}

func (s *discreetSink) Info(level int, msg string, keysAndValues ...any) {
	s.LogSink.Info(level, s.secrets.Hide(msg), s.hide(keysAndValues)...)
}

func (s *discreetSink) Error(err error, msg string, keysAndValues ...any) {
	s.LogSink.Error(s.hidden(err), s.secrets.Hide(msg), s.hide(keysAndValues)...)
}

func (s *discreetSink) WithValues(keysAndValues ...any) logr.LogSink {
	return &discreetSink{s.LogSink.WithValues(s.hide(keysAndValues)...), s.secrets}
}

func (s *discreetSink) WithName(name string) logr.LogSink {
	return &discreetSink{s.LogSink.WithName(name), s.secrets}
}

// WithCallDepth lets lines name their own caller.
func (s *discreetSink) WithCallDepth(depth int) logr.LogSink {
	if deeper, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return &discreetSink{deeper.WithCallDepth(depth), s.secrets}
	}
	return s
}

// hide returns a copy in which values are without secrets. Keys are the program's own, and stay what they are documented as.
func (s *discreetSink) hide(keysAndValues []any) []any {
	out := slices.Clone(keysAndValues)
	for i := 1; i < len(out); i += 2 {
		out[i] = s.shown(out[i])
	}
	return out
}

// shown is a value without secrets, also one that was read from JSON.
func (s *discreetSink) shown(value any) any {
	switch v := value.(type) {
	case string:
		return s.secrets.Hide(v)
	case []byte:
		return s.secrets.Hide(string(v))
	case error:
		return s.hidden(v)
	case fmt.Stringer:
		return s.secrets.Hide(v.String())
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = s.shown(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key := range v {
			out[s.secrets.Hide(key)] = s.shown(v[key])
		}
		return out
	}
	return value
}

func (s *discreetSink) hidden(err error) error {
	if err == nil {
		return nil
	}
	if text := err.Error(); s.secrets.Hide(text) != text {
		return errors.New(s.secrets.Hide(text))
	}
	return err
}
