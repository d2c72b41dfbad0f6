package scene

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"
)

// origin is what crawlers fetch, what probes ask and what the judge URL names, and it can be told to fail.
type origin struct {
	server *http.Server
	strict *httptest.Server // over https, where it is known that an answer is not the proxy's own
	url    string
	failed atomic.Bool
	ended  chan error
}

func startOrigin(ctx context.Context) (*origin, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o := &origin{url: "http://" + l.Addr().String(), ended: make(chan error, 1)}
	mux := http.NewServeMux()
	answers := func(w http.ResponseWriter, _ *http.Request) {
		code := http.StatusNoContent
		if o.failed.Load() {
			code = http.StatusServiceUnavailable
		}
		w.WriteHeader(code)
	}
	mux.HandleFunc("/healthy", answers)
	mux.HandleFunc("/judge", answers)
	mux.HandleFunc("/alone", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "a page") })
	o.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	o.strict = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }))
	o.strict.Config.ErrorLog = log.New(io.Discard, "", 0) // probes that end in a handshake are no news
	o.strict.StartTLS()
	go func() { o.ended <- o.server.Serve(l) }()
	return o, nil
}

func (o *origin) stop() error {
	o.strict.Close()
	err := o.server.Close()
	if ended := <-o.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
