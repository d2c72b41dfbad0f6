package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/forwardproxy"
)

// process is one run from the lock to the last closed tunnel.
type process struct {
	opts  *options
	ready *readyPipe
	stop  <-chan os.Signal
	log   logr.Logger
}

// run blocks until the proxy has ended. The order of the start matters: no port
// is opened before the lock is held, and nobody is told "ready" before both.
func (p *process) run() error {
	if path := p.opts.stateFile; path != "" {
		state, err := holdState(path)
		if err != nil {
			return err
		}
		// The lock lives with the descriptor, which a finalizer would close.
		defer runtime.KeepAlive(state)
		return p.serve(func(ctx context.Context) error {
			return watchState(ctx, clock.RealClock{}, state, path, p.log)
		})
	}
	return p.serve(func(ctx context.Context) error { <-ctx.Done(); return nil })
}

// serve runs the proxy until a signal, a failure of the listener, or the end of
// watch with an error.
func (p *process) serve(watch func(context.Context) error) error {
	server, err := p.newServer()
	if err != nil {
		return err
	}
	listener, err := net.ListenTCP("tcp", p.opts.listenAddr)
	if err != nil {
		return fmt.Errorf("--listen %q: %w", p.opts.listen, err)
	}
	p.log.Info("listening", "address", listener.Addr().String())
	p.ready.ready()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	served, watched := make(chan error, 1), make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { served <- server.Serve(listener) })
	running.Go(func() { watched <- watch(ctx) })

	select {
	case err = <-served:
	case err = <-watched:
	case sig := <-p.stop:
		p.log.Info("stopping", "signal", sig.String())
	}
	cancel()
	p.shutDown(server)
	running.Wait()
	return err
}

func (p *process) newServer() (*forwardproxy.Server, error) {
	cfg := p.opts.limits
	cfg.Dial = forwardproxy.NewDialer(p.opts.policy, p.opts.exitAddr, cfg.DialTimeout)
	cfg.Log = p.log
	if p.opts.authFile != "" {
		creds, err := openCredentials(p.opts.authFile, clock.RealClock{}, p.log)
		if err != nil {
			return nil, err
		}
		cfg.Authorize = creds.Authorize
	}
	return forwardproxy.New(cfg)
}

// shutDown gives what runs the grace period; a second signal ends it early.
func (p *process) shutDown(server *forwardproxy.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), p.opts.grace)
	defer cancel()
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-p.stop:
			cancel()
		case <-ctx.Done():
		}
	})
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		p.log.Info("connections were cut at the end of the grace period")
	} else if err != nil {
		p.log.Error(err, "shutdown")
	}
	cancel()
	waiting.Wait()
}
