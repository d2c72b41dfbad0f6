package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"
)

// tally is how often what was written.
type tally map[string]int

func (t tally) total() (n int) {
	for _, one := range t {
		n += one
	}
	return n
}

// less is what has been written since.
func (t tally) less(before tally) tally {
	out := tally{}
	for what, n := range t {
		if n -= before[what]; n > 0 {
			out[what] = n
		}
	}
	return out
}

// writes is what has been written to the API server so far, but for leases of elections, by its own count.
func (w *world) writes(ctx context.Context) (n tally, err error) {
	c, err := kubernetes.NewForConfig(w.config)
	if err != nil {
		return nil, err
	}
	text, err := c.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	families, err := parse(text)
	if err != nil {
		return nil, err
	}
	n = tally{}
	for _, m := range families["apiserver_request_total"].GetMetric() {
		l := labels(m)
		if slices.Contains([]string{"POST", "PUT", "PATCH", "DELETE", "APPLY"}, l["verb"]) && l["resource"] != "leases" && l["group"] != "authentication.k8s.io" &&
			l["group"] != "authorization.k8s.io" {
			n[strings.Trim(l["verb"]+" "+l["resource"]+"/"+l["subresource"], "/")] += int(m.GetCounter().GetValue())
		}
	}
	return n, nil
}

func parse(text []byte) (map[string]*dto.MetricFamily, error) {
	p := expfmt.NewTextParser(model.UTF8Validation)
	return p.TextToMetricFamilies(bytes.NewReader(text))
}

func labels(m *dto.Metric) map[string]string {
	out := map[string]string{}
	for _, l := range m.GetLabel() {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

// quiet waits until nothing has been written for 20 s, and returns what has been.
func (w *world) quiet(ctx context.Context) (n tally, err error) {
	last := -1
	since := time.Now()
	for deadline := time.Now().Add(5 * time.Minute); ; {
		if n, err = w.writes(ctx); err != nil {
			return nil, err
		}
		if n.total() != last {
			last, since = n.total(), time.Now()
		}
		if time.Since(since) > 20*time.Second || time.Now().After(deadline) {
			return n, nil
		}
		if err := wait(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}
