package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/egress-proxies/egress-proxies-operator/internal/connlimit"
)

// What strangers may take of the ports for metrics and probes. controller-runtime's own servers let each of any number of
// connections hold 1 MiB of header for 32 s, which four dozen of them need no longer to take the operator's memory.
const (
	portConnections = 128
	portHeaderBytes = 16 << 10
	portHeaderTime  = 5 * time.Second
	portReadTime    = 10 * time.Second
	portWriteTime   = 45 * time.Second // with two reviews of up to 10 s and a large fleet's metrics on a slow link
	portIdleTime    = 2 * time.Minute  // longer than scrapes are apart
	portStopTime    = 10 * time.Second // longer than a header may take
)

// servePort listens on address, which --name has, and lets mgr serve handler there on every replica, from before anything else
// until after it. secure may be nil.
func servePort(ctx context.Context, mgr manager.Manager, name, address string, secure *tls.Config, handler http.Handler) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--%s=%s: %w", name, address, err)
	}
	who := mgr.GetLogger().WithName("http").WithValues("flag", name)
	limited := connlimit.New(l, connlimit.Options{Most: portConnections, TLS: secure, HandshakeFailed: func(client net.Addr, reason string, err error) {
		who.V(1).Info("TLS handshake failed", "client", client.String(), "reason", reason, "error", err.Error())
	}})
	server := &http.Server{
		Handler: handler, MaxHeaderBytes: portHeaderBytes,
		ReadHeaderTimeout: portHeaderTime, ReadTimeout: portReadTime, WriteTimeout: portWriteTime, IdleTimeout: portIdleTime,
		ConnState: limited.State, ConnContext: limited.Context, ErrorLog: log.New(connectionLog{who}, "", 0),
	}
	err = mgr.Add(&manager.Server{Name: name, Server: server, Listener: limited, ShutdownTimeout: ptr.To(portStopTime)})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// connectionLog takes what net/http says about single connections.
type connectionLog struct{ log logr.Logger }

func (w connectionLog) Write(line []byte) (int, error) {
	w.log.V(1).Info("HTTP server", "message", strings.TrimSpace(string(line)))
	return len(line), nil
}
