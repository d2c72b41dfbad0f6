package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

func (d *demo) objects() []*v1alpha1.Proxy {
	healthCheck := &v1alpha1.HealthCheck{
		URL: d.originURL + "/healthy", ExpectedStatus: ptr.To[int32](204), Interval: v1alpha1.NewDuration(time.Second),
	}
	managed := func(name, country string) *v1alpha1.Proxy {
		entry, _ := d.stage.entry()
		p := &v1alpha1.Proxy{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: v1alpha1.ProxySpec{
				Mode: v1alpha1.ModeManaged, Provider: entry, Port: ptr.To(int32(d.ports.proxy)),
				Attributes:          map[string]v1alpha1.AttributeValue{"country": v1alpha1.AttributeValue(country), "kind": "managed"},
				MaxConcurrentLeases: ptr.To[int32](2), HealthCheck: healthCheck,
			},
		}
		d.stage.dress(&p.Spec)
		return p
	}
	external := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bought"},
		Spec: v1alpha1.ProxySpec{
			Mode:       v1alpha1.ModeExternal,
			Endpoint:   &v1alpha1.Endpoint{Host: externalAddress, Port: int32(d.ports.proxy)},
			Attributes: map[string]v1alpha1.AttributeValue{"country": "us", "kind": "external"}, HealthCheck: healthCheck,
		},
	}
	return []*v1alpha1.Proxy{managed("berlin", "de"), managed("hamburg", "de"), managed("paris", "fr"), external}
}

// applyAndLease measures what a user feels: from apply to the first lease of a Managed proxy.
func (d *demo) applyAndLease(ctx context.Context) error {
	start := time.Now()
	for _, p := range d.objects() {
		if err := d.client.Create(ctx, p); err != nil {
			return err
		}
	}
	var l leaseAnswer
	err := eventually(ctx, 30*time.Second, func() error {
		return d.post(ctx, "/v1/leases", map[string]any{"selector": map[string]string{"kind": "managed"}}, &l)
	})
	if err != nil {
		return err
	}
	took := time.Since(start)
	fmt.Printf("      apply to first lease: %d ms (at most %d)\n", took.Milliseconds(), d.stage.limit().Milliseconds())
	if took > d.stage.limit() {
		return fmt.Errorf("the first lease took %s, more than %s", took.Round(time.Millisecond), d.stage.limit())
	}
	return d.release(ctx, l.LeaseID)
}

// waitReady shows a table until every object is Ready. On a terminal it is redrawn in place.
func (d *demo) waitReady(ctx context.Context) error {
	last := ""
	return eventually(ctx, 30*time.Second, func() error {
		var list v1alpha1.ProxyList
		if err := d.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return err
		}
		if table := render(list.Items); table != last {
			if last != "" && onTerminal() {
				fmt.Printf("\x1b[%dA\x1b[J", strings.Count(last, "\n"))
			}
			fmt.Print(table)
			last = table
		}
		for _, p := range list.Items {
			if !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady) {
				return fmt.Errorf("%s is not Ready: %s", p.Name, why(&p))
			}
		}
		if want := len(d.objects()); len(list.Items) != want {
			return fmt.Errorf("%d objects, want %d", len(list.Items), want)
		}
		return nil
	})
}

func render(items []v1alpha1.Proxy) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "      NAME\tMODE\tPHASE\tADDRESS\tATTEMPT\tLATENCY")
	for _, p := range items {
		address, attempt, latency := "-", "-", "-"
		if p.Status.IP != "" {
			address = fmt.Sprintf("%s:%d", p.Status.IP, p.Status.Port)
		}
		if p.Status.Instance != nil {
			attempt = fmt.Sprint(p.Status.Instance.Attempt)
		}
		if p.Status.LatencyMillis != nil {
			latency = fmt.Sprintf("%d ms", *p.Status.LatencyMillis)
		}
		phase := p.Status.Phase
		if phase == "" {
			phase = v1alpha1.PhasePending
		}
		fmt.Fprintf(w, "      %s\t%s\t%s\t%s\t%s\t%s\n", p.Name, p.Spec.Mode, phase, address, attempt, latency)
	}
	_ = w.Flush()
	return b.String()
}

func why(p *v1alpha1.Proxy) string {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return "no condition yet"
	}
	return c.Reason + ": " + c.Message
}

func onTerminal() bool {
	info, err := os.Stdout.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// deleteAll deletes every Proxy and waits until the objects are gone.
func (d *demo) deleteAll(ctx context.Context) error {
	if err := d.client.DeleteAllOf(ctx, &v1alpha1.Proxy{}, client.InNamespace(namespace)); err != nil {
		return err
	}
	return eventually(ctx, 30*time.Second, func() error {
		var list v1alpha1.ProxyList
		if err := d.client.List(ctx, &list); err != nil {
			return err
		}
		if n := len(list.Items); n > 0 {
			return fmt.Errorf("%d Proxies are still there, among them %s: %s", n, list.Items[0].Name, why(&list.Items[0]))
		}
		return nil
	})
}
