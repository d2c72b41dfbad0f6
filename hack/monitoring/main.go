// Command monitoring proves dashboard, rules and pages against a real run: two operators on a real control plane with
// proxies, crawlers and faults (package scene), and a real Prometheus that scrapes them each second and has the rules loaded.
// Every query of the dashboard has to give data, every rule has to be evaluated without an error, and every metric that the
// dashboard, the rules and the pages name has to be exposed. It takes about two minutes.
//
//	go run ./hack/monitoring                              proves it and prints what is proved
//	go run ./hack/monitoring -picture docs/images/dashboard.png    draws the panels, too
//
// It runs from the repository's root and needs prometheus (hack/install monitoring). Everything it starts it ends, and
// everything it writes is in a folder that it removes, but for the picture; with -keep the folder stays.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/hack/monitoring/prom"
)

// limit is how long the run may take, its end not counted.
const limit = 8 * time.Minute

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "", "`folder` of operator and egress-proxy; they are built when it is empty")
	flag.StringVar(&o.picture, "picture", "", "draw the panels into this PNG `file`")
	flag.BoolVar(&o.keep, "keep", false, "keep the folder with logs and data")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := prove(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "monitoring: FAILED:", err)
		os.Exit(1) //nolint:gocritic // both defers only release what ends with the process
	}
}

type options struct {
	bin, picture string
	keep         bool
}

func prove(ctx context.Context, o options) (err error) {
	if _, err := prom.Find(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "monitoring-")
	if err != nil {
		return err
	}
	defer func() {
		if o.keep {
			fmt.Println("monitoring: logs and data are in", dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	for _, name := range []string{"scene", "prometheus", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return err
		}
	}
	if o.bin == "" {
		o.bin = filepath.Join(dir, "bin")
		if err := command(ctx, "go", "build", "-o", o.bin+"/", "./cmd/operator", "./cmd/egress-proxy"); err != nil {
			return err
		}
	}
	r := &run{options: o, dir: dir}
	return r.all(ctx)
}

// command runs one with this program's output as its own.
func command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %v: %w", name, args, err)
	}
	return nil
}

func proved(format string, args ...any) { fmt.Printf("proved: "+format+"\n", args...) }
