// Command operator runs the egress proxies operator: it reconciles Proxy objects, probes proxies and leases them.
//
// It ends with 0 after SIGTERM or SIGINT, 1 when it could not work (a lost election included), 2 for wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/internal/scratch"
	"github.com/egress-proxies/egress-proxies-operator/internal/tracing/export"
	"github.com/egress-proxies/egress-proxies-operator/internal/version"
)

func main() {
	os.Exit(run(ctrl.SetupSignalHandler(), os.Args[1:], environment, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, env func(string) (string, bool), stdout, stderr io.Writer) int {
	o, err := parse(args, env, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "operator:", err)
		return 2
	case o.version:
		fmt.Fprintln(stdout, version.Line("operator"))
		return 0
	}
	z, err := newLogger(o)
	if err != nil {
		fmt.Fprintln(stderr, "operator:", err)
		return 1
	}
	log := zapr.NewLoggerWithOptions(z, zapr.LogInfoLevel("v"))
	// What libraries say through the standard logger: strangers can make HTTP servers say something any time.
	restore, err := zap.RedirectStdLogAt(z.With(zap.Int("v", 1)), zapcore.DebugLevel)
	if err != nil {
		fmt.Fprintln(stderr, "operator:", err)
		return 1
	}
	defer restore()
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	defer ownTemporaryFiles(log)()
	finish, spans, err := startTracing(ctx, log, env, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "operator:", err)
		return 1
	}
	defer finish()
	if err := operate(ctrl.LoggerInto(ctx, log), o, spans); err != nil {
		fmt.Fprintln(stderr, "operator:", err)
		return 1
	}
	return 0
}

// startTracing sends spans to where OpenTelemetry's variables say, and returns what sends the last of them, and what tells what
// becomes of them.
func startTracing(ctx context.Context, log logr.Logger, env func(string) (string, bool), out io.Writer) (finish func(), spans *export.Counts, err error) {
	spans = &export.Counts{}
	finish, err = export.Start(ctx, export.Read(env), export.Options{
		Service: "egress-proxies-operator", Version: version.Text(), Out: out, Log: log.WithName("tracing"), Counts: spans,
	})
	return finish, spans, err
}

// ownTemporaryFiles gives the process a folder of its own for temporary files, and returns what removes it. Not every provider
// needs one, so that there can be none is said and no more.
func ownTemporaryFiles(log logr.Logger) (remove func()) {
	folder, err := scratch.New(os.TempDir())
	if folder != nil {
		err = errors.Join(err, os.Setenv("TMPDIR", folder.Path))
	}
	if err != nil {
		log.Info("WARNING: temporary files", "error", err.Error())
	}
	return func() {
		if folder != nil {
			_ = folder.Close() // the next process removes what stays
		}
	}
}

func newLogger(o *options) (*zap.Logger, error) {
	c := zap.NewProductionConfig()
	c.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	c.EncoderConfig.EncodeLevel = encodeLevel
	c.DisableStacktrace, c.DisableCaller, c.Sampling = true, true, nil
	if o.logFormat == "console" {
		c.Encoding = "console"
	}
	c.Level = zap.NewAtomicLevelAt(zapcore.Level(-o.logLevel)) //nolint:gosec // 0 to 5
	return c.Build()
}

// encodeLevel calls every V(n) debug: zap would write Level(-2), which nobody who collects logs takes for a level. The key v
// has the number.
func encodeLevel(l zapcore.Level, e zapcore.PrimitiveArrayEncoder) {
	zapcore.LowercaseLevelEncoder(max(l, zapcore.DebugLevel), e)
}
