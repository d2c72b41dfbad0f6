package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local/instancelock"
)

// kill ends the process of one proxy as the kernel's OOM killer would, and waits for its successor.
func (d *demo) kill(ctx context.Context) error {
	key := types.NamespacedName{Namespace: namespace, Name: "paris"}
	var before v1alpha1.Proxy
	if err := d.client.Get(ctx, key, &before); err != nil {
		return err
	}
	pid, err := d.pidOf(string(before.UID))
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	fmt.Printf("      killed process %d of %s, attempt %d\n", pid, key.Name, before.Status.Instance.Attempt)
	var now v1alpha1.Proxy
	err = eventually(ctx, 60*time.Second, func() error {
		if err := d.client.Get(ctx, key, &now); err != nil {
			return err
		}
		if now.Status.Instance.Attempt == before.Status.Instance.Attempt || !meta.IsStatusConditionTrue(now.Status.Conditions, v1alpha1.ConditionReady) {
			return fmt.Errorf("%s is at attempt %d: %s", key.Name, now.Status.Instance.Attempt, why(&now))
		}
		return nil
	})
	if err != nil {
		return err
	}
	successor, err := d.pidOf(string(now.UID))
	if err != nil {
		return err
	}
	if successor == pid {
		return fmt.Errorf("process %d still runs", pid)
	}
	fmt.Printf("      %s is Ready again: process %d, attempt %d\n", key.Name, successor, now.Status.Instance.Attempt)
	return nil
}

// pidOf asks the kernel which process holds the record of the instance.
func (d *demo) pidOf(uid string) (int, error) {
	f, err := os.OpenFile(filepath.Join(d.stateDir(), provider.NameFromUID(uid)+".json"), os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // only asked
	pid, held, err := instancelock.Holder(f)
	if err == nil && (!held || pid <= 0) {
		err = fmt.Errorf("no process holds %s", filepath.Base(f.Name()))
	}
	return pid, err
}

// deleteAndProve deletes every object and looks at process table, files and objects for anything left.
func (d *demo) deleteAndProve(ctx context.Context) error {
	if running, err := d.processes(); err != nil || len(running) == 0 {
		return fmt.Errorf("the look at the process table must find proxies before the deletion: found %d, %w", len(running), err)
	}
	if err := d.deleteAll(ctx); err != nil {
		return err
	}
	running, err := d.processes()
	if err != nil {
		return err
	}
	if len(running) > 0 {
		return fmt.Errorf("processes are left: %v", running)
	}
	files, err := filepath.Glob(filepath.Join(d.stateDir(), "*"))
	if err != nil {
		return err
	}
	if len(files) > 0 {
		return fmt.Errorf("files are left: %v", files)
	}
	fmt.Println("      processes left: 0, files left: 0, objects left: 0")
	return nil
}

// processes returns the pids of proxies whose record lies in the demo's folder.
func (d *demo) processes() ([]int, error) {
	tables, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, path := range tables {
		cmdline, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		args := bytes.Split(cmdline, []byte{0})
		if filepath.Base(string(args[0])) != "egress-proxy" || !strings.Contains(string(cmdline), d.stateDir()) {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(path, "/")[2])
		if err != nil {
			return nil, err
		}
		out = append(out, pid)
	}
	return out, nil
}

// explore brings the proxies back and waits for an interrupt.
func (d *demo) explore(ctx context.Context) error {
	for _, p := range d.objects() {
		if err := d.client.Create(ctx, p); err != nil {
			return err
		}
	}
	if err := d.waitReady(ctx); err != nil {
		return err
	}
	fmt.Printf(`
It stays up for exploring until you press Ctrl-C. In another terminal:

  export KUBECONFIG=%[1]s
  export EGRESS_API=%[2]s
  export DISCOVERY_TOKEN=%[3]s   # made for this run, worth nothing after it
  kubectl get proxies -o wide
  curl -H "Authorization: Bearer $DISCOVERY_TOKEN" $EGRESS_API/v1/proxies
  curl -H "Authorization: Bearer $DISCOVERY_TOKEN" -d '{"selector":{"country":"de"},"ttlSeconds":60}' $EGRESS_API/v1/leases
  curl --noproxy '' -x <url of the leased proxy> %[4]s   # shows the exit address

  origin          %[4]s (the proxies reach nothing beyond this machine)
  metrics         %[5]s
  operator's log  %[6]s

The examples of docs/api.md run in that terminal as they stand. For pkg/client it is
client.Options{BaseURL: os.Getenv("EGRESS_API"), Token: os.Getenv("DISCOVERY_TOKEN")}.
`, d.kubeconfig, d.apiURL, d.token, d.originURL, d.metricsURL, d.operatorTo)
	<-ctx.Done()
	fmt.Println("\nstopping")
	return nil
}
