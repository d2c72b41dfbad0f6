package main

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/internal/leaderlabel"
)

// pods are Pods of one namespace, as far as the leader's label is concerned.
type pods struct {
	t         *testing.T
	c         client.Client
	namespace string
}

func (p pods) create(name, label string) {
	p.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name, Labels: map[string]string{"app": "operator"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if label != "" {
		pod.Labels[leaderlabel.Label] = label
	}
	if err := p.c.Create(p.t.Context(), pod); err != nil {
		p.t.Fatal(err)
	}
}

// labelled returns what a Service would select.
func (p pods) labelled(id string) (names []string) {
	p.t.Helper()
	var list corev1.PodList
	if err := p.c.List(p.t.Context(), &list, client.InNamespace(p.namespace), client.MatchingLabels{leaderlabel.Label: id}); err != nil {
		p.t.Fatal(err)
	}
	for _, pod := range list.Items {
		if pod.Labels["app"] != "operator" {
			p.t.Errorf("%s lost its other labels: %v", pod.Name, pod.Labels)
		}
		names = append(names, pod.Name)
	}
	return names
}

func (p pods) only(id, name string) bool {
	names := p.labelled(id)
	return len(names) == 1 && names[0] == name
}

// TestTheServiceFindsTheLeader follows the label of the leader's Pod through a handover and a clean stop. The election is
// in another namespace than the Pods.
func TestTheServiceFindsTheLeader(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	own, elections := pods{t, c, newNamespace(t, c)}, pods{t, c, newNamespace(t, c)}
	own.create("first", "")
	own.create("second", "")
	own.create("stale", "mine")                 // led once and died, or was paused
	own.create("neighbour", "someone-elses")    // another installation
	elections.create("first", "")               // a namesake
	elections.create("stale-elsewhere", "mine") // none of this operator's business
	start := func(pod string) *operatorProcess {
		return startOperator(t, noProviders, "--leader-elect", "--leader-election-lease-duration=5s", "--namespace", own.namespace,
			"--leader-election-id=mine", "--leader-election-namespace", elections.namespace, "--pod-name", pod, "--pod-namespace", own.namespace)
	}
	first := start("first")
	until(t, "the first alone labelled", func() bool { return own.only("mine", "first") })
	second := start("second")
	second.eventually(t, "/v1/proxies", http.StatusServiceUnavailable)
	if !own.only("mine", "first") || first.status("/v1/proxies") != http.StatusOK {
		t.Errorf("with a standby labelled are %v", own.labelled("mine"))
	}
	if err := first.stop(t); err != nil {
		t.Fatalf("after SIGTERM: %v", err)
	}
	until(t, "the second alone labelled", func() bool { return own.only("mine", "second") })
	second.eventually(t, "/v1/proxies", http.StatusOK)
	if err := second.stop(t); err != nil {
		t.Fatalf("after SIGTERM: %v", err)
	}
	if got := own.labelled("mine"); len(got) > 0 {
		t.Errorf("labelled after a clean stop with nobody to follow: %v", got)
	}
	if !own.only("someone-elses", "neighbour") {
		t.Errorf("labelled for the other installation are %v", own.labelled("someone-elses"))
	}
	if !elections.only("mine", "stale-elsewhere") {
		t.Errorf("labelled in the namespace of the election are %v", elections.labelled("mine"))
	}
}
