package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/discovery"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

const (
	benchToken = "bench-token"
	pageSize   = 500
)

// command is what the orchestrator tells a server on its standard input: read the meters, after encoding a list Marshal
// times.
type command struct{ Marshal int }

// reading is a server's answer: all CPU time that the process has used and what it has allocated so far, in
// bytes and in objects.
type reading struct {
	Addr           string
	CPU            time.Duration
	Alloc, Mallocs uint64
}

func meters() reading {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return reading{CPU: cpuTime(), Alloc: m.TotalAlloc, Mallocs: m.Mallocs}
}

// cpuTime is what all threads of this process have used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serve is a server process, of the API or of the reference. It ends with its standard input.
func serve(ctx context.Context, mode string) (failure error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if path := os.Getenv("BENCH_PROFILE"); path != "" {
		f, err := os.Create(path + "." + mode)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return errors.Join(err, f.Close())
		}
		defer func() {
			pprof.StopCPUProfile()
			failure = errors.Join(failure, f.Close())
		}()
	}
	store := newFleet(fleetSize, smallPool, 0)
	list := preparedList(store, nil)
	addr, err := listen(ctx, mode, store, list)
	if err != nil {
		return err
	}
	go judge(ctx, store)
	runtime.GC()
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for first := true; ; first = false {
		var c command
		if !first {
			if err := in.Decode(&c); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
		}
		if err := marshalList(list, c.Marshal); err != nil {
			return err
		}
		m := meters()
		m.Addr = addr
		if err := out.Encode(m); err != nil {
			return err
		}
	}
}

func listen(ctx context.Context, mode string, store *fleet.Store, list referenceList) (string, error) {
	if mode == "reference" {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		go func() { _ = http.Serve(l, reference(preparedLeases(store), list)) }()
		return l.Addr().String(), nil
	}
	ledger, err := lease.New(lease.Options{Fleet: store, Clock: clock.RealClock{}})
	if err != nil {
		return "", err
	}
	o := discovery.Options{
		BindAddress: "127.0.0.1:0", Token: benchToken, RequireAuth: true, Fleet: store, Ledger: ledger, Clock: clock.RealClock{},
	}
	if mode == "besieged" {
		o.ReadHeaderTimeout, o.ReadTimeout, o.WriteTimeout, o.IdleTimeout = headerLimit, readLimit, writeLimit, idleLimit
	}
	api, err := discovery.New(o)
	if err != nil {
		return "", err
	}
	go func() { _ = ledger.Start(ctx) }()
	go func() { _ = api.Start(ctx) }()
	addr, err := api.Addr(ctx)
	if err != nil {
		return "", err
	}
	return addr.String(), nil
}

// preparedList holds the page of proxies behind after as the API would answer it.
func preparedList(store *fleet.Store, after *types.NamespacedName) referenceList {
	page, _ := store.Page(after, nil, pageSize, func(*fleet.Proxy) bool { return true })
	list := referenceList{Count: len(page), Continue: strings.Repeat("c", 24)}
	for _, p := range page {
		millis := p.Verdict.Latency.Milliseconds()
		list.Proxies = append(list.Proxies, referenceProxy{
			Namespace: p.Key.Namespace, Name: p.Key.Name, URL: p.Endpoint.URL(), IP: p.Endpoint.Host, Port: p.Endpoint.Port,
			Provider: p.Provider, Mode: string(p.Mode), Attributes: p.Attributes, Phase: string(p.Phase), Healthy: true,
			LatencyMillis: &millis, ExitAddress: p.ExitAddress, MaxConcurrentLeases: p.Cap,
		})
	}
	return list
}

// preparedLeases are on proxies of the large pool.
func preparedLeases(store *fleet.Store) []referenceLease {
	last := keyOf(smallPool - 1)
	list := preparedList(store, &last)
	leases := make([]referenceLease, len(list.Proxies))
	for i, p := range list.Proxies {
		l := &leases[i]
		l.LeaseID, l.Epoch = fmt.Sprintf("%026d", i), strings.Repeat("E", 26)
		l.Proxy.referenceProxy, l.Proxy.Auth = p, &referenceAuth{Username: "crawler", Password: "correct-horse-battery"}
		l.Proxy.ActiveLeases, l.ExpiresAt, l.TTLSeconds = 1, "2030-01-02T03:04:05.000Z", 300
	}
	return leases
}
