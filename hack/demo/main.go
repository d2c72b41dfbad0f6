// Command demo shows the whole system on one machine: a control plane, the operator with the local provider, declared
// proxies that become processes, leases and a request through one of them. With the argument gcp, they become VMs of an
// emulated Compute Engine. It needs neither root nor a container engine.
//
// With DEMO=once it ends after its proof, with 0; otherwise it stays up for exploring until it is interrupted. A step that
// fails ends it with 1 and is named.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	mode := os.Getenv("DEMO")
	if mode != "" && mode != "once" {
		fmt.Fprintf(os.Stderr, "demo: DEMO is %q: want once, or nothing\n", mode)
		os.Exit(2)
	}
	d := &demo{once: mode == "once"}
	switch args := os.Args[1:]; {
	case len(args) == 0:
		d.stage = laptop{d}
	case len(args) == 1 && args[0] == "gcp":
		d.stage = &cloud{}
	default:
		fmt.Fprintf(os.Stderr, "demo: unknown arguments %q; none, or gcp\n", args)
		os.Exit(2)
	}
	if err := d.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo: FAILED:", err)
		os.Exit(1)
	}
}

// step is one thing the demo shows.
type step struct {
	name string
	do   func(context.Context) error
}

func (d *demo) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, d.stop()) }()
	steps := []step{
		{"start a small origin that tells which address it saw", d.startOrigin},
		{"start etcd and kube-apiserver", d.startControlPlane},
		{"start the operator", d.startOperator},
		{"start a forward proxy for the External object", d.startExternal},
		{"apply three Managed proxies and one External; time to the first lease", d.applyAndLease},
		{"wait until all are Ready", d.waitReady},
		{"list them over HTTP", d.list},
		{"lease one by attribute and send a request through it", d.requestThroughLease},
		{"report it banned for that target and lease again", d.ban},
		{d.stage.ending(), d.replaced},
		{"delete everything and prove that nothing is left", d.deleteAndProve},
	}
	if intro := d.stage.intro(); intro != "" {
		steps = slices.Insert(steps, 1, step{intro, d.stage.start})
	}
	for i, s := range steps {
		fmt.Printf("\n[%d/%d] %s\n", i+1, len(steps), s.name)
		start := time.Now()
		if err := s.do(ctx); err != nil {
			if errors.Is(err, context.Canceled) && ctx.Err() != nil {
				return errors.New("interrupted")
			}
			return fmt.Errorf("step %d (%s): %w\n%s", i+1, s.name, err, d.operatorLog())
		}
		fmt.Printf("      done in %s\n", time.Since(start).Round(10*time.Millisecond))
	}
	fmt.Println("\nEvery step passed.")
	if d.once {
		return nil
	}
	return d.explore(ctx)
}
