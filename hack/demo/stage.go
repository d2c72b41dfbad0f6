package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// stage is where the demo's Managed proxies run.
type stage interface {
	// start prepares the backend; steps tell what it is.
	start(ctx context.Context) error
	// entry is the provider's entry in the operator's configuration, and its name.
	entry() (name, config string)
	// dress completes the spec of a Managed Proxy.
	dress(spec *v1alpha1.ProxySpec)
	// limit bounds the time from apply to the first lease.
	limit() time.Duration
	// end takes one instance away, as happens, and says what it did.
	end(p *v1alpha1.Proxy) (what string, err error)
	// left returns what is there of instances.
	left() ([]string, error)
	// stop removes the backend.
	stop() error

	// Names for what is shown. Without an intro there is nothing to start.
	intro() string
	ending() string
	things() string
}

// replaced ends one instance and waits for its successor.
func (d *demo) replaced(ctx context.Context) error {
	key := types.NamespacedName{Namespace: namespace, Name: "paris"}
	var before, now v1alpha1.Proxy
	if err := d.client.Get(ctx, key, &before); err != nil {
		return err
	}
	what, err := d.stage.end(&before)
	if err != nil {
		return err
	}
	fmt.Printf("      %s, attempt %d\n", what, before.Status.Instance.Attempt)
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
	fmt.Printf("      %s is Ready again at %s:%d, attempt %d\n", key.Name, now.Status.IP, now.Status.Port, now.Status.Instance.Attempt)
	return nil
}

// deleteAndProve deletes every object and looks for anything left, as the backend itself shows it.
func (d *demo) deleteAndProve(ctx context.Context) error {
	if there, err := d.stage.left(); err != nil || len(there) == 0 {
		return fmt.Errorf("the look at the backend must find something before the deletion: found %d, %w", len(there), err)
	}
	if err := d.deleteAll(ctx); err != nil {
		return err
	}
	// What instances share, like a firewall rule, goes with a list that shows none of them, and not at once.
	err := eventually(ctx, 30*time.Second, func() error {
		there, err := d.stage.left()
		if err == nil && len(there) > 0 {
			err = fmt.Errorf("left is: %v", there)
		}
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("      %s left: 0, objects left: 0\n", d.stage.things())
	return nil
}
