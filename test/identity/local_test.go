//go:build linux

package identity

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// localPair are two operators, strangers to each other, on one host. Each has a folder, perhaps the same.
type localPair struct {
	w        *world
	a, b     *operator
	fa, fb   *folder
	ofA, ofB []types.NamespacedName
}

// everyLocalPair runs test for all ways to be a stranger, with one folder for both and with one for each. In the latter the
// pools overlap, which only the host can tell. Addresses are those of 127.0.83.0/24.
func everyLocalPair(t *testing.T, test func(p *localPair)) {
	for name, owners := range strangers() {
		for _, shared := range []bool{true, false} {
			if !shared && owners[0].Installation != owners[1].Installation {
				continue // who they are makes no difference where they do not meet
			}
			t.Run(map[bool]string{true: "one folder, ", false: "two folders, "}[shared]+name, func(t *testing.T) {
				w := newEmptyWorld(t)
				port := freePort(t, "127.0.83.17")
				p := &localPair{w: w, fa: newFolder(w, "127.0.83.16/28", port)}
				if p.fb = p.fa; !shared {
					p.fb = newFolder(w, "127.0.83.16/29", port)
				}
				p.a = w.operator(settings{name: "A", owner: owners[0], at: w.cluster(), provider: p.fa.provider})
				p.b = w.operator(settings{name: "B", owner: owners[1], at: w.cluster(), provider: p.fb.provider})
				test(p)
			})
		}
	}
}

// serve makes two Proxies at each and waits until they serve.
func (p *localPair) serve() {
	p.w.t.Helper()
	p.ofA = []types.NamespacedName{p.a.at.proxy("team", "exit-1", toPort(p.fa.port)), p.a.at.proxy("team", "exit-2", toPort(p.fa.port))}
	p.ofB = []types.NamespacedName{p.b.at.proxy("team", "exit-1", toPort(p.fb.port)), p.b.at.proxy("team", "exit-2", toPort(p.fb.port))}
	p.w.until("both serve", func() bool { return p.a.serves(p.ofA...) && p.b.serves(p.ofB...) })
}

func TestTwoInstallationsOnOneHost(t *testing.T) {
	everyLocalPair(t, func(p *localPair) {
		p.serve()
		before := p.fb.of(p.b.at, p.ofB...)
		left := p.fa.of(p.a.at, p.ofA[0])
		p.a.at.lose(p.ofA[0])
		p.a.down = true
		p.w.rounds(long / 2)
		p.fa.untouched(left, "an orphan's own operator was away")
		p.a.start()
		p.a.at.edit(p.ofA[1], ask("now"))
		p.w.rounds(long / 2)
		p.a.at.delete(p.ofA[1])
		p.w.until("A's Proxies are gone", func() bool { return p.a.at.gone(p.ofA...) })
		p.w.rounds(long / 2)
		p.fb.untouched(before, "A lost its fleet")
		if len(p.a.collected) != 1 || len(p.b.collected) > 0 || !p.b.serves(p.ofB...) {
			p.w.t.Errorf("A collected %v, B %v:\n%s", p.a.collected, p.b.collected, p.w.describe())
		}
		if now := p.fb.records(); len(now) != len(before) {
			p.w.t.Errorf("there is %v, want what B has", now)
		}
	})
}

// With a folder each the same name is no conflict, for the ID of one does not reach into the other's.
func TestSameUIDOnOneHost(t *testing.T) {
	everyLocalPair(t, func(p *localPair) {
		ka := p.a.at.proxy("team", "exit", toPort(p.fa.port))
		p.w.until("A serves", func() bool { return p.a.serves(ka) })
		before := p.fa.of(p.a.at, ka)
		kb := p.b.at.proxy("team", "exit", toPort(p.fb.port), withUID(p.a.at.uid(ka)))
		if p.fa == p.fb {
			p.w.until("B conflicts", func() bool { return p.b.at.conflicts(kb) })
		} else {
			p.w.until("B serves", func() bool { return p.b.serves(kb) })
		}
		p.b.at.edit(kb, ask("now"))
		p.w.rounds(long / 2)
		p.b.at.delete(kb)
		p.w.until("B's Proxy is gone", func() bool { return p.b.at.gone(kb) })
		p.w.rounds(long / 2)
		p.fa.untouched(before, "B had its UID")
		if !p.a.serves(ka) {
			p.w.t.Errorf("A no longer serves:\n%s", p.w.describe())
		}
	})
}

// A record copied from X to where Y's belongs is not Y's, and not X's either, also with its name mended: then it has all the
// marks of an instance of X, but X's has another name.
func TestCopiedStateFile(t *testing.T) {
	for name, mended := range map[string]bool{"as it is": false, "with its name mended": true} {
		t.Run(name, func(t *testing.T) {
			w := newEmptyWorld(t)
			f := newFolder(w, "127.0.83.32/28", freePort(t, "127.0.83.33"))
			o := w.operator(settings{name: "operator", owner: crawl, at: w.cluster(), provider: f.provider})
			x := o.at.proxy("team", "victim", toPort(f.port))
			w.until("X serves", func() bool { return o.serves(x) })
			before := f.of(o.at, x)
			y := o.at.proxy("team", "copy", toPort(f.port))
			text, err := os.ReadFile(f.file(o.at, x))
			must(t, err)
			if mended {
				text = []byte(strings.ReplaceAll(string(text), nameIn(f.file(o.at, x)), nameIn(f.file(o.at, y))))
			}
			must(t, os.WriteFile(f.file(o.at, y), text, 0o600))
			w.rounds(long)
			if left, err := os.ReadFile(f.file(o.at, y)); err != nil || string(left) != string(text) || !o.at.conflicts(y) {
				t.Errorf("the copy is to be left alone and Y to conflict (%v):\n%s", err, w.describe())
			}
			o.at.delete(y)
			w.until("Y is gone", func() bool { return o.at.gone(y) })
			w.rounds(long / 2)
			f.untouched(before, "its record was copied")
			if !o.serves(x) || len(o.collected) > 0 {
				t.Errorf("collected %v:\n%s", o.collected, w.describe())
			}
			o.at.delete(x)
			w.until("X is gone", func() bool { return o.at.gone(x) })
			w.rounds(long)
			if left := f.records(); len(left) != 1 || len(o.collected) > 0 {
				t.Errorf("there is %v, want the copy alone; collected %v", left, o.collected)
			}
		})
	}
}

// nameIn returns the instance's name in the path of its record.
func nameIn(path string) string {
	return strings.TrimSuffix(path[strings.LastIndexByte(path, '/')+1:], ".json")
}
