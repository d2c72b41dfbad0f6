package crash

import "fmt"

// spare looks whether the one that nobody may remove is still there: it is on record and as desired, came after the last step
// of the story, and does not fail late or half way.
func (w *world) spare(step bool) {
	p, kept := w.get(), w.wanted == ""
	was := w.wanted
	w.wanted = ""
	for _, i := range w.backend.Instances() {
		kept = kept || i.Identity == was && !i.Deleting
		if step {
			w.doomed[i.Identity] = true
		} else if p != nil && p.DeletionTimestamp.IsZero() && !i.Deleting && !w.doomed[i.Identity] && right(p, i) &&
			(!w.vis.fail && !w.vis.bySteps || w.backend.Serving(p.Status.IP, p.Status.Port) == i.Identity) {
			w.wanted = i.Identity
		}
	}
	if !kept && w.removed == nil {
		w.removed = fmt.Errorf("the instance that is on record and as desired was removed (identity %s)", was)
	}
}
