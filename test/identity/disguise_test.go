package identity

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

var crawl = provider.Owner{Installation: "crawl", Cluster: "here"}

// disguise is what somebody else's instance may carry although it is none of ours.
type disguise struct {
	name   string
	labels map[string]string
}

// disguises start from all the marks of a Proxy's instance: each lacks or changes what makes them ours.
func disguises(key types.NamespacedName, uid types.UID) []disguise {
	marks := provider.Marks{
		UID: string(uid), Namespace: key.Namespace, Name: key.Name, Installation: crawl.Installation, Cluster: crawl.Cluster,
		Spec: provider.SpecMark(provider.SpecInput{UID: string(uid), Port: 3128}), Attempt: 1,
	}
	list := []disguise{
		{"a machine without labels", nil},
		{"a machine with labels of its own", map[string]string{"team": "crawlers", "uid": string(uid)}},
	}
	with := func(name, label string, value func() string) {
		labels := marks.ToMap()
		if value == nil {
			delete(labels, label)
		} else {
			labels[label] = value()
		}
		list = append(list, disguise{name, labels})
	}
	for _, label := range []string{
		provider.LabelManaged, provider.LabelUID, provider.LabelInstallation, provider.LabelCluster, provider.LabelAttempt,
	} {
		with("an instance without "+strings.TrimPrefix(label, "proxy-operator-"), label, nil)
	}
	for _, c := range []struct{ label, value string }{
		{provider.LabelManaged, "TRUE"}, {provider.LabelManaged, "false"},
		{provider.LabelInstallation, "archive"}, {provider.LabelInstallation, "crawl-2"}, {provider.LabelInstallation, "Crawl"},
		{provider.LabelCluster, "there"}, {provider.LabelCluster, ""},
		{provider.LabelAttempt, "first"}, {provider.LabelAttempt, "0"}, {provider.LabelAttempt, "-1"}, {provider.LabelAttempt, "1.0"},
		{provider.LabelAttempt, "9223372036854775808"}, {provider.LabelAttempt, ""},
	} {
		with("an instance marked "+strings.TrimPrefix(c.label, "proxy-operator-")+"="+c.value, c.label, func() string { return c.value })
	}
	// The first half of a careful copy, in the order of the names.
	half := marks.ToMap()
	for i, label := range slices.Sorted(maps.Keys(half)) {
		if i >= 4 {
			delete(half, label)
		}
	}
	return append(list, disguise{"half a copy", half})
}

// underOurName are the disguises that only count where a certain Proxy's instance is looked for.
func underOurName(key types.NamespacedName, uid types.UID) []disguise {
	other := provider.Marks{
		UID: "6f1c3d1e-0000-4000-8000-00000000dead", Namespace: key.Namespace, Name: key.Name,
		Installation: "archive", Cluster: crawl.Cluster, Spec: "v1-0123456789abcdef", Attempt: 1,
	}
	list := disguises(key, uid)
	list = append(list, disguise{"another installation's instance of another Proxy", other.ToMap()})
	return list
}
