package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

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
	if err := d.writeEnv(); err != nil {
		return err
	}
	fmt.Printf(`
It stays up for exploring until you press Ctrl-C. In another terminal:

  export KUBECONFIG=%[1]s
  export EGRESS_API=%[2]s
  export DISCOVERY_TOKEN=%[3]s   # made for this run, worth nothing after it
  export ORIGIN=%[4]s            # what the proxies can reach
  kubectl get proxies -o wide
  curl -H "Authorization: Bearer $DISCOVERY_TOKEN" $EGRESS_API/v1/proxies
  curl -H "Authorization: Bearer $DISCOVERY_TOKEN" -d '{"selector":{"country":"de"},"ttlSeconds":60}' $EGRESS_API/v1/leases
  curl --noproxy '' -x <url of the leased proxy> $ORIGIN   # shows the exit address

Or, instead of the four exports: . %[7]s

  origin          %[4]s (the proxies reach nothing beyond this machine)
  metrics         %[5]s
  operator's log  %[6]s

The examples of docs/api.md run in that terminal as they stand. For pkg/client it is
client.Options{BaseURL: os.Getenv("EGRESS_API"), Token: os.Getenv("DISCOVERY_TOKEN")}.
`, d.kubeconfig, d.apiURL, d.token, d.originURL, d.metricsURL, d.operatorTo, d.envFile())
	<-ctx.Done()
	fmt.Println("\nstopping")
	return d.removeEnv()
}

// envFile is what a shell reads instead of typing the exports.
func (d *demo) envFile() string { return filepath.Join(binDir(), "demo.env") }

// writeEnv writes the file anew: one of a demo that was killed may be there, and a token is for nobody else to read.
func (d *demo) writeEnv() error {
	if err := d.removeEnv(); err != nil {
		return err
	}
	text := fmt.Sprintf("export KUBECONFIG=%s EGRESS_API=%s DISCOVERY_TOKEN=%s ORIGIN=%s\n", d.kubeconfig, d.apiURL, d.token, d.originURL)
	return os.WriteFile(d.envFile(), []byte(text), 0o600)
}

func (d *demo) removeEnv() error {
	if err := os.Remove(d.envFile()); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
