package main

import (
	"context"
	"fmt"
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
