package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func checkImages(block provider.Block, c Config) error {
	if err := imageName(c.Image); err != nil {
		return block.Errorf("image", "%v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Images)) {
		if err := imageName(c.Images[name]); err != nil {
			return block.Errorf("images."+name, "%v", err)
		}
	}
	return nil
}

// imageName refuses what is no reference at all; the rest is the registry's to judge.
func imageName(ref string) error {
	if ref == "" || strings.ContainsFunc(ref, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%q: want an image such as %q", ref, DefaultImage)
	}
	return nil
}

func checkResources(block provider.Block, c Config) error {
	if err := resources(*c.Resources); err != nil {
		return block.Errorf("resources", "%v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.MachineTypes)) {
		if err := resources(c.MachineTypes[name]); err != nil {
			return block.Errorf("machineTypes."+name, "%v", err)
		}
	}
	return nil
}

func resources(r Resources) error {
	for kind, list := range map[string]corev1.ResourceList{"requests": r.Requests, "limits": r.Limits} {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if q := list[name]; q.Sign() <= 0 {
				return fmt.Errorf("%s.%s: %s is not more than nothing", kind, name, q.String())
			}
			if errs := validation.IsQualifiedName(string(name)); len(errs) > 0 {
				return fmt.Errorf("%s: %q is not the name of a resource", kind, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		request := r.Requests[name]
		if limit, ok := r.Limits[name]; ok && request.Cmp(limit) > 0 {
			return fmt.Errorf("requests.%s: %s is more than the limit %s", name, request.String(), limit.String())
		}
	}
	return nil
}

func checkScheduling(block provider.Block, c Config) error {
	for _, key := range slices.Sorted(maps.Keys(c.NodeSelector)) {
		if err := labelPair(key, c.NodeSelector[key]); err != nil {
			return block.Errorf("nodeSelector", "%v", err)
		}
	}
	for i, t := range c.Tolerations {
		if err := toleration(t); err != nil {
			return block.Errorf(fmt.Sprintf("tolerations[%d]", i), "%v", err)
		}
	}
	for i, s := range c.TopologySpreadConstraints {
		key := fmt.Sprintf("topologySpreadConstraints[%d]", i)
		switch {
		case len(validation.IsQualifiedName(s.TopologyKey)) > 0:
			return block.Errorf(key+".topologyKey", "%q is not the key of a label", s.TopologyKey)
		case s.MaxSkew < 1:
			return block.Errorf(key+".maxSkew", "%d: want at least 1", s.MaxSkew)
		case s.WhenUnsatisfiable != corev1.DoNotSchedule && s.WhenUnsatisfiable != corev1.ScheduleAnyway:
			return block.Errorf(key+".whenUnsatisfiable", "%q: want %s or %s", s.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Annotations)) {
		if len(validation.IsQualifiedName(strings.ToLower(key))) > 0 {
			return block.Errorf("annotations", "%q is not the key of an annotation", key)
		}
		if reserved(key) {
			return block.Errorf("annotations", "%q is the operator's own", key)
		}
	}
	return nil
}

func labelPair(key, value string) error {
	if len(validation.IsQualifiedName(key)) > 0 {
		return fmt.Errorf("%q is not the key of a label", key)
	}
	if len(validation.IsValidLabelValue(value)) > 0 {
		return fmt.Errorf("%s: %q is not the value of a label", key, value)
	}
	return nil
}

func toleration(t corev1.Toleration) error {
	switch t.Operator {
	case "", corev1.TolerationOpEqual:
		if t.Key == "" {
			return fmt.Errorf("key: empty; only operator %s does without", corev1.TolerationOpExists)
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			return fmt.Errorf("value: %q beside operator %s", t.Value, corev1.TolerationOpExists)
		}
	default:
		return fmt.Errorf("operator: %q: want %s or %s", t.Operator, corev1.TolerationOpEqual, corev1.TolerationOpExists)
	}
	if t.Key != "" {
		if err := labelPair(t.Key, t.Value); err != nil {
			return err
		}
	}
	switch t.Effect {
	case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule:
		if t.TolerationSeconds != nil {
			return fmt.Errorf("tolerationSeconds: only with effect %s", corev1.TaintEffectNoExecute)
		}
	case corev1.TaintEffectNoExecute:
	default:
		return fmt.Errorf("effect: %q is not known", t.Effect)
	}
	return nil
}
