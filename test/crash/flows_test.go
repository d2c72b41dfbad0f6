package crash

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// flow is a story told to one Proxy: each step is taken as soon as its condition holds, at the edge of a pass.
type flow struct {
	name  string
	steps []storyStep
	// least is how many effects a normal run must have: fewer would mean that the flow shows less than it says.
	least int
	// restored: the record was falsified, so a second instance may appear for a while.
	restored bool
}

type storyStep struct {
	when func(*world) bool
	do   func(*world)
}

func at(when func(*world) bool, do func(*world)) storyStep { return storyStep{when, do} }

// Conditions.

func always(*world) bool { return true }

func running(attempt int64) func(*world) bool {
	return func(w *world) bool {
		p := w.get()
		return p != nil && p.Status.Instance != nil && p.Status.Instance.Attempt >= attempt && p.Status.IP != ""
	}
}

// recreated: settled again after a second creation. It may be of the same attempt where a death hid the first one's end.
func recreated(w *world) bool { return sent("create", 2)(w) && settled(w) }

// sent reports whether the n-th effect of that name has been tried.
func sent(name string, n int) func(*world) bool {
	return func(w *world) bool {
		count := 0
		for _, e := range w.effects {
			if e == name {
				count++
			}
		}
		return count >= n
	}
}

func deposed(w *world) bool { return w.depose == "" }

func both(a, b func(*world) bool) func(*world) bool {
	return func(w *world) bool { return a(w) && b(w) }
}

// asDesired: the instance is made from what the spec says now, and nothing is on its way that could change that. A death may
// have come before anything had to be made again.
func asDesired(w *world) bool {
	if w.converged() != nil || w.backend.InFlight() > 0 {
		return false
	}
	i := w.backend.Instances()[0]
	return !i.Deleting && provider.SameSpec(i.Marks.Spec, inputOf(w.get(), ""))
}

// asSecretSays: the instance that runs was made from what the Secret holds now.
func asSecretSays(w *world) bool {
	if w.converged() != nil {
		return false
	}
	p := w.get()
	template := w.secrets.held[p.Spec.CloudInit.SecretRef.Name].Data[v1alpha1.DefaultCloudInitKey]
	return provider.SameSpec(w.backend.Instances()[0].Marks.Spec, inputOf(p, string(template)))
}

// inputOf is what the instance of p is to be made from.
func inputOf(p *v1alpha1.Proxy, template string) provider.SpecInput {
	at := ptr.Deref(p.Spec.Placement, v1alpha1.Placement{})
	return provider.SpecInput{
		UID: string(p.UID), Port: p.Spec.ListenPort(), Template: template,
		Placement: provider.Placement{Region: at.Region, Zone: at.Zone, MachineType: at.MachineType, Image: at.Image},
	}
}

// Deeds.

func toZone(zone string) func(*world) {
	return func(w *world) {
		w.edit(func(p *v1alpha1.Proxy) { p.Spec.Placement = w.backend.placement(zone) })
	}
}

func toPort(port int32) func(*world) {
	return func(w *world) { w.edit(func(p *v1alpha1.Proxy) { p.Spec.Port = ptr.To(port) }) }
}

func userData(text string) func(*world) {
	return func(w *world) {
		w.edit(func(p *v1alpha1.Proxy) { p.Spec.CloudInit = &v1alpha1.CloudInit{Inline: text} })
	}
}

func ask(value string) func(*world) {
	return func(w *world) {
		w.edit(func(p *v1alpha1.Proxy) {
			if p.Annotations == nil {
				p.Annotations = map[string]string{}
			}
			p.Annotations[v1alpha1.AnnotationReplace] = value
		})
	}
}

func stopInstance(w *world) {
	if p := w.get(); p != nil {
		w.backend.Stop(p.Status.ProviderID, "")
	}
}

// restoreStatus puts an older status back, as a restore from a backup does.
func restoreStatus(old v1alpha1.ProxyStatus) func(*world) {
	return func(w *world) {
		if p := w.get(); p != nil {
			p.Status = *old.DeepCopy()
			w.must(w.api.Status().Update(w.ctx(), p))
		}
	}
}

func remove(w *world) { w.delete() }

func flows() []flow {
	return []flow{
		{name: "create", least: 7, steps: []storyStep{at(running(1), remove)}},
		{name: "replace", least: 12, steps: []storyStep{at(running(1), toPort(8080)), at(recreated, remove)}},
		{name: "zone edit during create", least: 9, steps: []storyStep{at(sent("create", 1), toZone("zone-b")), at(inZone("zone-b"), remove)}},
		{name: "zone edit during delete", least: 12, steps: []storyStep{
			at(running(1), toPort(8080)), at(sent("delete", 1), toZone("zone-b")), at(inZone("zone-b"), remove),
		}},
		{name: "a to b to a", least: 7, steps: []storyStep{
			at(running(1), toZone("zone-b")), at(sent("delete", 1), toZone("zone-a")), at(asDesired, remove),
		}},
		{name: "delete during create", least: 4, steps: []storyStep{at(sent("create", 1), remove)}},
		{name: "delete before the first pass", least: 0, steps: []storyStep{at(always, remove)}},
		{name: "user-data changed before the create is visible", least: 7, steps: []storyStep{
			at(sent("create", 1), userData("#cloud-config new")), at(settled, remove),
		}},
		{name: "Secret rotation before the create is visible", least: 9, steps: []storyStep{
			at(always, func(w *world) {
				w.keep("user-data", "#cloud-config old")
				w.edit(func(p *v1alpha1.Proxy) {
					p.Spec.CloudInit = &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: "user-data"}}
				})
			}),
			at(sent("create", 1), func(w *world) { w.keep("user-data", "#cloud-config new") }),
			at(asSecretSays, remove),
		}},
		{name: "loss of leadership in the middle of a create", least: 6, steps: []storyStep{
			at(always, func(w *world) { w.depose = "create" }), at(both(deposed, settled), remove),
		}},
		{name: "loss of leadership in the middle of a delete", least: 12, steps: []storyStep{
			at(running(1), func(w *world) { w.depose = "delete"; toPort(8080)(w) }), at(both(deposed, recreated), remove),
		}},
		{name: "replace asked twice", least: 12, steps: []storyStep{
			at(running(1), ask("1")), at(sent("delete", 1), ask("2")), at(recreated, remove),
		}},
		{name: "the instance stops by itself", least: 12, steps: []storyStep{at(running(1), stopInstance), at(recreated, remove)}},
		{name: "restore of an empty status", least: 8, restored: true, steps: []storyStep{
			at(running(1), restoreStatus(v1alpha1.ProxyStatus{})), at(settled, remove),
		}},
		{name: "restore of an older status", least: 12, restored: true, steps: func() []storyStep {
			var old v1alpha1.ProxyStatus
			return []storyStep{
				at(running(1), func(w *world) { old = *w.get().Status.DeepCopy(); toPort(8080)(w) }),
				at(recreated, func(w *world) { restoreStatus(old)(w) }),
				at(settled, remove),
			}
		}()},
	}
}

// settled: the instance runs and is the one on record, as the spec wants it.
func settled(w *world) bool { return w.converged() == nil && slices.Contains(w.effects, "create") }

func inZone(zone string) func(*world) bool {
	return func(w *world) bool {
		p := w.get()
		return p != nil && p.Status.IP != "" && p.Status.ProviderID == w.backend.id(zone, instanceName(p))
	}
}
