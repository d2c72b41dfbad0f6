// Command egress-proxy is one forward proxy with one listen and one exit
// address: what the local provider runs as an instance, and what people may run
// by hand.
//
// It ends with 0 after an orderly stop (SIGTERM, SIGINT), 1 when it could not
// work, 2 for wrong usage, and 3 when its state file cannot be held at the start
// or is gone later: a proxy without a record must not live on.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/egress-proxies/egress-proxies-operator/internal/version"
)

const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitState   = 3
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	// The process outlives whoever started it: neither a closed terminal nor a
	// closed log pipe is a reason to end.
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	stop := make(chan os.Signal, 2)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(stop)

	opts, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err == nil && opts.version:
		fmt.Fprintln(stdout, version.Line("egress-proxy"))
		return exitOK
	}
	if err == nil {
		err = opts.validate()
	}
	ready, readyErr := openReady(opts.readyFD)
	if err == nil {
		err = readyErr
	}
	if err != nil {
		ready.failed(err)
		fmt.Fprintln(stderr, "egress-proxy:", oneLine(err))
		return exitUsage
	}
	p := &process{opts: opts, ready: ready, stop: stop, log: newLogger(stderr, opts.accessLog)}
	if err := p.run(); err != nil {
		ready.failed(err)
		p.log.Error(err, "stopped")
		var state stateError
		if errors.As(err, &state) {
			return exitState
		}
		return exitFailure
	}
	return exitOK
}

func newLogger(w io.Writer, access bool) logr.Logger {
	verbosity := 0
	if access {
		verbosity = 1
	}
	return funcr.NewJSON(func(line string) { fmt.Fprintln(w, line) },
		funcr.Options{LogTimestamp: true, Verbosity: verbosity})
}

// oneLine keeps a message with a line break from looking like two.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
