package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// proxies counts the fleet at scrape time, on standbys too.
type proxies struct{ store *fleet.Store }

func phaseDesc() *prometheus.Desc { return described("proxies", "Proxies by phase.", "phase") }

func withheldDesc() *prometheus.Desc {
	return described("proxies_withheld", "Proxies that are offered to nobody, by why: deleting, draining, cordoned, not_provisioned, "+
		"credentials_unreadable, instance_gone, address_claimed_by_another_proxy, not_probed or unhealthy.", "reason")
}

func missingDesc() *prometheus.Desc {
	return described("proxies_not_provisioned", "Managed Proxies that are not provisioned, by the reason of the condition Provisioned.", "reason")
}

// Describe implements prometheus.Collector.
func (proxies) Describe(out chan<- *prometheus.Desc) {
	out <- phaseDesc()
	out <- withheldDesc()
	out <- missingDesc()
}

// Collect implements prometheus.Collector.
func (p proxies) Collect(out chan<- prometheus.Metric) {
	phases, withheld, missing := map[string]int{}, map[string]int{}, map[string]int{}
	for _, phase := range allPhases() {
		phases[string(phase)] = 0
	}
	for _, why := range fleet.WithheldAll() {
		withheld[word(string(why))] = 0
	}
	for _, proxy := range p.store.Select("", nil) {
		phase := proxy.Phase
		if !slices.Contains(allPhases(), phase) { // none yet; nor does a status that others wrote make a label
			phase = v1alpha1.PhasePending
		}
		phases[string(phase)]++
		if why := proxy.Withheld(); why != fleet.WithheldNot {
			withheld[word(string(why))]++
		}
		if proxy.Mode == v1alpha1.ModeManaged && !proxy.Provisioned {
			missing[missingReason(proxy.Missing)]++
		}
	}
	emit(out, phaseDesc(), phases)
	emit(out, withheldDesc(), withheld)
	emit(out, missingDesc(), missing)
}

func emit(out chan<- prometheus.Metric, d *prometheus.Desc, counts map[string]int) {
	for label, n := range counts {
		out <- gaugeOf(d, n, label)
	}
}

// word makes a phrase the value of a label.
func word(phrase string) string { return strings.ReplaceAll(phrase, " ", "_") }

func allPhases() []v1alpha1.Phase {
	return []v1alpha1.Phase{
		v1alpha1.PhasePending, v1alpha1.PhaseProvisioning, v1alpha1.PhaseReady, v1alpha1.PhaseUnhealthy, v1alpha1.PhaseFailed, v1alpha1.PhaseDeleting,
	}
}

// missingReason bounds the values of the label to the reasons that there are.
func missingReason(reason string) string {
	switch reason {
	case "": // no pass yet
		return v1alpha1.ReasonProvisioning
	case v1alpha1.ReasonProvisioning, v1alpha1.ReasonDraining, v1alpha1.ReasonReplacing, v1alpha1.ReasonDeleting, v1alpha1.ReasonQuotaExceeded,
		v1alpha1.ReasonPermanentError, v1alpha1.ReasonConflict, v1alpha1.ReasonScopeMismatch, v1alpha1.ReasonCloudInitError, v1alpha1.ReasonAuthError,
		v1alpha1.ReasonOpenProxyRefused, v1alpha1.ReasonProviderNotConfigured, v1alpha1.ReasonProviderUnavailable, v1alpha1.ReasonUnobserved:
		return reason
	}
	return "other"
}

// RegisterManaged registers with r how many Proxies nobody looks after. managed is asked at every scrape for each Managed one,
// by its namespace and spec.provider.
func RegisterManaged(r prometheus.Registerer, store *fleet.Store, managed func(namespace, provider string) bool) error {
	s := &set{r: r}
	s.value("proxies_unmanaged", "Managed Proxies whose spec.provider is not configured, or not for their namespace: nothing of them is created, "+
		"mended or deleted.", func() float64 {
		n := 0
		for _, p := range store.Select("", nil) {
			if p.Mode == v1alpha1.ModeManaged && !managed(p.Key.Namespace, p.Provider) {
				n++
			}
		}
		return float64(n)
	})
	return s.err()
}
