package provider

import (
	"fmt"
	"regexp"
	"strconv"
)

// Names under which backends with labels or tags store the marks. The values of all but namespace and name fit into
// the strictest of them ([a-z0-9_-]{0,63}).
const (
	LabelManaged      = "proxy-operator-managed"
	LabelUID          = "proxy-operator-uid"
	LabelNamespace    = "proxy-operator-namespace"
	LabelName         = "proxy-operator-name"
	LabelInstallation = "proxy-operator-installation"
	LabelCluster      = "proxy-operator-cluster"
	LabelSpec         = "proxy-operator-spec"
	LabelAttempt      = "proxy-operator-attempt"
	// LabelManagedValue is the only value with which LabelManaged counts.
	LabelManagedValue = "true"
)

// Marks say whose an instance is. They are set by the creating call.
type Marks struct {
	UID          string `json:"uid"`
	Namespace    string `json:"namespace"`
	Name         string `json:"name"`
	Installation string `json:"installation"`
	Cluster      string `json:"cluster"`
	// Spec is the spec mark the instance was made from.
	Spec    string `json:"spec"`
	Attempt int64  `json:"attempt"`
}

// Owner is the installation that a provider works for.
type Owner struct {
	// Installation tells operators on one backend apart: [a-z0-9-]{1,63}.
	Installation string
	// Cluster is derived from the cluster's own identity, so that the same installation ID set in two clusters by
	// mistake still leaves each alone with its own.
	Cluster string
}

var ownerPart = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

// Validate reports the first member that could not be stored as a mark.
func (o Owner) Validate() error {
	if !ownerPart.MatchString(o.Installation) {
		return fmt.Errorf("installation ID %q: want 1 to 63 characters of a-z, 0-9 and '-'", o.Installation)
	}
	if !ownerPart.MatchString(o.Cluster) {
		return fmt.Errorf("cluster ID %q: want 1 to 63 characters of a-z, 0-9 and '-'", o.Cluster)
	}
	return nil
}

// MarksFor returns the marks that Create puts on the instance of req and ref.
func (o Owner) MarksFor(req CreateRequest, ref Ref) Marks {
	return Marks{
		UID: req.UID, Namespace: req.Namespace, Name: req.ProxyName,
		Installation: o.Installation, Cluster: o.Cluster, Spec: req.Spec, Attempt: ref.Attempt,
	}
}

// Owns reports whether m is complete and of this installation. What it denies is foreign.
func (o Owner) Owns(m Marks) bool {
	return m.UID != "" && m.Attempt > 0 && m.Installation == o.Installation && m.Cluster == o.Cluster
}

// Foreign returns an ErrConflict-worthy explanation when m is not this installation's instance of uid, else nil.
func (o Owner) Foreign(m Marks, uid string) error {
	switch {
	case m == Marks{}:
		return fmt.Errorf("something without marks of this operator stands there")
	case m.Installation != o.Installation:
		return fmt.Errorf("it belongs to installation %q, this is %q", m.Installation, o.Installation)
	case m.Cluster != o.Cluster:
		return fmt.Errorf("it belongs to cluster %q, this is %q", m.Cluster, o.Cluster)
	case m.UID != uid:
		return fmt.Errorf("it belongs to Proxy UID %q, not %q", m.UID, uid)
	case m.Attempt <= 0:
		return fmt.Errorf("its attempt mark %d is not positive", m.Attempt)
	}
	return nil
}

// ToMap returns m in the form of labels, the managed mark included.
func (m Marks) ToMap() map[string]string {
	return map[string]string{
		LabelManaged: LabelManagedValue, LabelUID: m.UID, LabelNamespace: m.Namespace, LabelName: m.Name,
		LabelInstallation: m.Installation, LabelCluster: m.Cluster, LabelSpec: m.Spec,
		LabelAttempt: strconv.FormatInt(m.Attempt, 10),
	}
}

// MarksFromMap reads what ToMap wrote. ok is false when the managed mark is missing or any mark does not parse: such an
// instance is foreign.
func MarksFromMap(labels map[string]string) (m Marks, ok bool) {
	if labels[LabelManaged] != LabelManagedValue {
		return Marks{}, false
	}
	attempt, err := strconv.ParseInt(labels[LabelAttempt], 10, 64)
	if err != nil || attempt <= 0 || labels[LabelUID] == "" || labels[LabelInstallation] == "" || labels[LabelCluster] == "" {
		return Marks{}, false
	}
	return Marks{
		UID: labels[LabelUID], Namespace: labels[LabelNamespace], Name: labels[LabelName],
		Installation: labels[LabelInstallation], Cluster: labels[LabelCluster], Spec: labels[LabelSpec], Attempt: attempt,
	}, true
}
