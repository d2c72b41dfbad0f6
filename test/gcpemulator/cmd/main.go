// Command cmd serves the emulated Compute Engine by the real clock, for demonstrations.
//
//	go run ./test/gcpemulator/cmd -listen 127.0.0.1:0 -addresses 127.0.82.1-127.0.82.20 -serve 'exec egress-proxy …'
//
// It prints the URL for the operator's endpoint, and a line whenever a virtual machine begins to run or stops. With
// -serve, each machine that runs has a process, which a shell starts and which ends with the machine; see machine.go for
// what it finds in its environment.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "gcpemulator:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, out, log io.Writer) (err error) {
	flags := flag.NewFlagSet("gcpemulator", flag.ContinueOnError)
	flags.SetOutput(log)
	listen := flags.String("listen", "127.0.0.1:0", "where to listen; loopback only, as nobody is asked for credentials")
	projects := flags.String("projects", "demo", "IDs of projects, comma-separated")
	addresses := flags.String("addresses", "", "external addresses of virtual machines: FIRST-LAST, or a comma-separated list")
	boot := flags.Duration("boot", 3*time.Second, "how long a virtual machine takes to run")
	remove := flags.Duration("delete", 2*time.Second, "how long a deletion takes")
	serve := flags.String("serve", "", "shell command that is each running virtual machine")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pool, err := parseAddresses(*addresses)
	if err != nil {
		return err
	}
	m := newMachines(ctx, *serve, out, log)
	defer m.close()
	e := gcpemulator.New(gcpemulator.Options{
		Projects: strings.Split(*projects, ","), Addresses: pool, OnRunning: m.running, OnGone: m.gone,
		Delays: gcpemulator.Delays{
			Pending: *boot / 10, Staging: *boot / 3, Boot: *boot, Insert: *boot, Delete: *remove, Stop: *remove, Global: *boot / 3,
		},
	})
	server, err := e.Listen(ctx, *listen)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "listening on", server.URL)
	settle := time.NewTicker(50 * time.Millisecond)
	defer settle.Stop()
	for {
		select {
		case <-settle.C:
			e.Settle()
		case <-ctx.Done():
			return server.Close()
		}
	}
}

// parseAddresses returns the addresses of a list or of a range; nothing is no list at all.
func parseAddresses(text string) (all []string, err error) {
	if text == "" {
		return nil, nil
	}
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		all = strings.Split(text, ",")
		for _, a := range all {
			if _, err := netip.ParseAddr(a); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	from, err := netip.ParseAddr(first)
	if err != nil {
		return nil, err
	}
	to, err := netip.ParseAddr(last)
	if err != nil {
		return nil, err
	}
	for a := from; a.IsValid() && a.Compare(to) <= 0; a = a.Next() {
		if len(all) == 1<<16 {
			return nil, fmt.Errorf("%s are too many addresses", text)
		}
		all = append(all, a.String())
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s is no range", text)
	}
	return all, nil
}
