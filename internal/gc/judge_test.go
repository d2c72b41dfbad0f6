package gc

import (
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// TestJudge starts from an instance that is an orphan in every respect and takes one respect away at a time.
func TestJudge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const uid = "5f0e7c1a-0000-4000-8000-000000000001"
	cases := map[string]struct {
		inst   func(*provider.Instance)
		e      func(*evidence)
		want   Verdict
		reason string
	}{
		"orphan":              {want: Orphaned, reason: "nothing speaks for it"},
		"stopped":             {inst: func(i *provider.Instance) { i.State = provider.StateStopped }, want: Orphaned, reason: "a stopped instance exists and costs"},
		"unknown state":       {inst: func(i *provider.Instance) { i.State = provider.StateUnknown }, want: Unclear, reason: "held until its state is known"},
		"half of it":          {inst: func(i *provider.Instance) { i.State, i.Left = provider.StateFailed, true }, want: Orphaned, reason: "a disk is an instance too"},
		"no marks":            {inst: func(i *provider.Instance) { i.Marks = provider.Marks{} }, want: Foreign, reason: "somebody's own machine"},
		"no UID":              {inst: func(i *provider.Instance) { i.Marks.UID = "" }, want: Foreign, reason: "nobody to be dead"},
		"no attempt":          {inst: func(i *provider.Instance) { i.Marks.Attempt = 0 }, want: Foreign, reason: "attempts count from 1"},
		"negative attempt":    {inst: func(i *provider.Instance) { i.Marks.Attempt = -1 }, want: Foreign, reason: "attempts count from 1"},
		"other installation":  {inst: func(i *provider.Instance) { i.Marks.Installation = "theirs" }, want: Foreign, reason: "its Proxy is not ours to look for"},
		"other cluster":       {inst: func(i *provider.Instance) { i.Marks.Cluster = "there" }, want: Foreign, reason: "its Proxy is not here"},
		"no namespace":        {inst: func(i *provider.Instance) { i.Marks.Namespace = "" }, want: Foreign, reason: "cannot be read again"},
		"no name":             {inst: func(i *provider.Instance) { i.Marks.Name = "" }, want: Foreign, reason: "cannot be read again"},
		"odd namespace":       {inst: func(i *provider.Instance) { i.Marks.Namespace = "a/b" }, want: Foreign, reason: "no operator wrote that"},
		"dotted namespace":    {inst: func(i *provider.Instance) { i.Marks.Namespace = "a.b" }, want: Foreign, reason: "namespaces are labels"},
		"odd name":            {inst: func(i *provider.Instance) { i.Marks.Name = "../x" }, want: Foreign, reason: "no operator wrote that"},
		"long name":           {inst: func(i *provider.Instance) { i.Marks.Name = strings.Repeat("a", 254) }, want: Foreign, reason: "no object has it"},
		"dotted name":         {inst: func(i *provider.Instance) { i.Marks.Name = "exit.eu-1" }, want: Orphaned, reason: "names are subdomains"},
		"odd UID":             {inst: func(i *provider.Instance) { renamed(i, "to-be-filled-in") }, want: Foreign, reason: "no API server gave that"},
		"half a UID":          {inst: func(i *provider.Instance) { renamed(i, uid[:18]) }, want: Foreign, reason: "no API server gave that"},
		"no spec":             {inst: func(i *provider.Instance) { i.Marks.Spec = "" }, want: Foreign, reason: "no operator wrote that"},
		"odd spec":            {inst: func(i *provider.Instance) { i.Marks.Spec = "v-0" }, want: Foreign, reason: "no operator wrote that"},
		"newer spec":          {inst: func(i *provider.Instance) { i.Marks.Spec = "v12-anything" }, want: Orphaned, reason: "a newer operator wrote that"},
		"cloned":              {inst: func(i *provider.Instance) { i.ID += "-1" }, want: Foreign, reason: "somebody copied it, marks and all"},
		"name of another UID": {inst: func(i *provider.Instance) { i.Marks.UID = strings.Replace(uid, "5", "6", 1) }, want: Foreign, reason: "name and mark disagree"},
		"no ID":               {inst: func(i *provider.Instance) { i.ID = "" }, want: Foreign, reason: "it has no name"},
		"cloned from a live":  {inst: func(i *provider.Instance) { i.ID += "-1" }, e: func(e *evidence) { e.live = set[string]{uid: {}} }, want: Foreign, reason: "a clone is no stray"},
		"other namespace":     {e: func(e *evidence) { e.namespace = "theirs" }, want: Elsewhere, reason: "not this operator's"},
		"own namespace":       {e: func(e *evidence) { e.namespace = "crawlers" }, want: Orphaned, reason: "this operator's"},
		"unread zone":         {e: func(e *evidence) { e.unread = []string{"z1"} }, want: Unread, reason: "the scope as one segment"},
		"unread scope":        {e: func(e *evidence) { e.unread = []string{"projects/p/zones/z1"} }, want: Unread, reason: "the scope as segments"},
		"other zone unread":   {e: func(e *evidence) { e.unread = []string{"z", "z11", "ones/z1"} }, want: Orphaned, reason: "only whole segments count"},
		"live":                {e: func(e *evidence) { e.live = set[string]{uid: {}} }, want: Live, reason: "strays of live ones are the reconciler's"},
		"no identity":         {inst: func(i *provider.Instance) { i.Identity = "" }, want: Unidentified, reason: "a successor could be hit"},
		"being removed":       {inst: func(i *provider.Instance) { i.State = provider.StateDeleting }, want: Leaving, reason: "in flight already"},
		"exactly the age":     {inst: func(i *provider.Instance) { i.CreatedAt = now.Add(-time.Minute) }, want: Young, reason: "older, not as old"},
		"a little older":      {inst: func(i *provider.Instance) { i.CreatedAt = now.Add(-time.Minute - 1) }, want: Orphaned, reason: "older"},
		"unknown age":         {inst: func(i *provider.Instance) { i.CreatedAt = time.Time{} }, want: Young, reason: "could not be parsed"},
		"from the future":     {inst: func(i *provider.Instance) { i.CreatedAt = now.Add(time.Hour) }, want: Young, reason: "a clock is wrong"},
		"new":                 {e: func(e *evidence) { e.before = nil }, want: Fresh, reason: "seen once"},
		"other identity":      {inst: func(i *provider.Instance) { i.Identity = "8" }, want: Fresh, reason: "another instance stood there"},
		"moved":               {inst: func(i *provider.Instance) { i.ID = "projects/p/zones/z2/instances/" + provider.NameFromUID(uid) }, want: Fresh, reason: "it stood elsewhere"},
		"foreign before live": {inst: func(i *provider.Instance) { i.Marks.Cluster = "there" }, e: func(e *evidence) { e.live = set[string]{uid: {}} }, want: Foreign, reason: "a cloned UID is no claim"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner := provider.Owner{Installation: "mine", Cluster: "here"}
			inst := provider.Instance{
				ID: "projects/p/zones/z1/instances/" + provider.NameFromUID(uid), Identity: "7", State: provider.StateRunning, CreatedAt: now.Add(-time.Hour),
				Marks: provider.Marks{UID: uid, Namespace: "crawlers", Name: "exit-1", Installation: "mine", Cluster: "here", Spec: "v1-0", Attempt: 3},
			}
			e := evidence{
				owner: owner, live: set[string]{"5f0e7c1a-0000-4000-8000-000000000002": {}},
				before: set[sighting]{sightingOf(inst): {}}, now: now, minAge: time.Minute,
			}
			if tc.inst != nil {
				tc.inst(&inst)
			}
			if tc.e != nil {
				tc.e(&e)
			}
			if got := judge(inst, e); got != tc.want {
				t.Errorf("%s, want %s: %s", got, tc.want, tc.reason)
			}
		})
	}
}

// renamed gives the instance another UID and the name that goes with it.
func renamed(i *provider.Instance, uid string) {
	i.Marks.UID, i.ID = uid, "projects/p/zones/z1/instances/"+provider.NameFromUID(uid)
}

func TestBreakerThresholds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		doomed, instances, living int
		want                      bool
	}{
		{0, 0, 0, false},
		{1, 1, 0, false}, {2, 2, 0, false}, {3, 3, 0, true}, {5, 5, 0, true}, {10, 10, 0, true}, // all of them, from three up
		{4, 5, 1, false}, {10, 11, 1, false},
		{2, 5, 0, false}, {3, 5, 0, true}, // the others are dead too, only not due yet
		{11, 50, 39, true}, {11, 100, 89, true}, // more than ten, which is at least a tenth
		{11, 110, 99, false}, {12, 119, 107, true}, {12, 120, 108, false}, {100, 1000, 900, false}, {101, 1000, 899, true}, // more than a tenth
	} {
		if got := trips(tc.doomed, tc.instances, tc.living); got != tc.want {
			t.Errorf("%d of %d, %d living: %v, want %v", tc.doomed, tc.instances, tc.living, got, tc.want)
		}
	}
}

func TestDigestNamesTheSet(t *testing.T) {
	t.Parallel()
	a := Orphan{ID: "a", Identity: "1", UID: "u"}
	b := Orphan{ID: "b", Identity: "2", UID: "v"}
	base := digest([]Orphan{a, b})
	if !digestForm.MatchString(base) {
		t.Errorf("%q is not of the form that is asked for", base)
	}
	if other := digest([]Orphan{b, a}); other != base {
		t.Errorf("order changes the digest: %s, %s", base, other)
	}
	for name, changed := range map[string][]Orphan{
		"fewer": {a}, "more": {a, b, b}, "none": {},
		"ID":       {{ID: "c", Identity: "1", UID: "u"}, b},
		"identity": {{ID: "a", Identity: "3", UID: "u"}, b},
		"UID":      {{ID: "a", Identity: "1", UID: "w"}, b},
		"shifted":  {{ID: "a 1", Identity: "", UID: "u"}, b},
	} {
		if digest(changed) == base {
			t.Errorf("%s: another set has the same digest", name)
		}
	}
}
