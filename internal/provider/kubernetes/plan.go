package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// maxMarks bounds in bytes what the caller decides of annotations.
const maxMarks = 4096

// check refuses what can never be satisfied. op and id are those of the call that asks.
func (p *Provider) check(op, id string, req provider.CreateRequest) error {
	permanent := func(format string, args ...any) *provider.Error {
		return provider.Wrap(provider.ErrPermanent, op, p.name, id, fmt.Errorf(format, args...))
	}
	_, imageKnown := p.image(req)
	_, machineKnown := p.resources(req)
	invalidLabel := func(value string) bool { return len(validation.IsValidLabelValue(value)) > 0 }
	switch place := req.Placement; {
	case req.Name != provider.NameFromUID(req.UID):
		return permanent("name %q: want the one that belongs to UID %q", req.Name, req.UID)
	case req.UID == "" || invalidLabel(req.UID):
		return permanent("UID %q: cannot be the value of a label", req.UID)
	case len(req.Namespace)+len(req.ProxyName)+len(req.Spec) > maxMarks:
		return permanent("marks: %d bytes, at most %d are allowed", len(req.Namespace)+len(req.ProxyName)+len(req.Spec), maxMarks)
	case len(validation.IsDNS1123Label(req.Namespace)) > 0:
		return permanent("namespace %q: is none", req.Namespace)
	case !p.inScope(p.planned(req).namespace):
		return permanent("namespace %q: Pods of this provider entry live in %s alone", req.Namespace, strings.Join(p.config.Namespaces, ", ")).
			WithReason(provider.ReasonScopeMismatch)
	case req.Port < 1 || req.Port > 65535:
		return permanent("port %d: want 1 to 65535", req.Port)
	case req.CloudInit != "":
		return permanent("cloudInit: a Pod has none; remove spec.cloudInit")
	case invalidLabel(place.Region):
		return permanent("placement.region %q: cannot be the value of a node's label", place.Region)
	case invalidLabel(place.Zone):
		return permanent("placement.zone %q: cannot be the value of a node's label", place.Zone)
	case !machineKnown:
		return permanent("placement.machineType %q: not one of %s", place.MachineType, names(p.config.MachineTypes))
	case !imageKnown:
		return permanent("placement.image %q: not one of %s", place.Image, names(p.config.Images))
	}
	if req.Credentials != nil {
		if err := checkCredentials(*req.Credentials); err != nil {
			return permanent("%w", err)
		}
		return nil
	}
	if len(p.config.AllowClients) == 0 {
		return permanent("spec.auth: every Pod of the cluster could use the proxy, since neither credentials nor allowClients restrict it").
			WithReason(provider.ReasonOpenProxyRefused)
	}
	return nil
}

// names lists the keys of a catalogue.
func names[V any](catalogue map[string]V) string {
	if len(catalogue) == 0 {
		return "those that the provider entry defines, which are none"
	}
	return strings.Join(slices.Sorted(maps.Keys(catalogue)), ", ")
}

func (p *Provider) image(req provider.CreateRequest) (string, bool) {
	if req.Placement.Image == "" {
		return p.config.Image, true
	}
	ref, ok := p.config.Images[req.Placement.Image]
	return ref, ok
}

func (p *Provider) resources(req provider.CreateRequest) (Resources, bool) {
	if req.Placement.MachineType == "" {
		return *p.config.Resources, true
	}
	r, ok := p.config.MachineTypes[req.Placement.MachineType]
	return r, ok
}
