package gcp

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	// trusted is how long a rule is taken for what it was when it was last read; a hand may have changed it since. With a
	// list every minute, what a hand has done is undone within ten.
	trusted = 8 * time.Minute
	// carriedOut is when a change that was accepted shows at the latest. Until then the rule counts as what was asked for.
	carriedOut = time.Minute
)

// errReplaced says that the rule has to be made anew, because what is wrong with it cannot be changed.
var errReplaced = errors.New("the firewall rule is of another network and is being removed, another one follows")

// rule is the entry's firewall rule as this process knows it. What is true stands at the API: a process that has just
// started knows nothing, and finds out.
type rule struct {
	name string
	// held has a place for whoever looks at or changes what follows, calls included.
	held chan struct{}

	// ports that the rule has, or will have once the last change is carried out; nil is that it is not there.
	ports []int32
	// unfit: it has to be removed before it can be as wanted.
	unfit bool
	// read is when it was last read, changed when a change was last sent; sure is that this one was accepted.
	read, changed time.Time
	sure          bool
	// used is what the last list has shown in use, soon what it may not show yet, by whom it is for.
	used usage
	soon map[string]opening
}

// admit lets crawlers in to the port of a creation before something listens there.
func (p *Provider) admit(ctx context.Context, ref provider.Ref, port int32) error {
	if !p.config.Firewall.Manage {
		return nil
	}
	r := &p.rule
	if err := r.hold(ctx); err != nil {
		return err
	}
	defer r.release()
	r.soon[attemptAt(ref.ID, ref.Attempt)] = opening{port, p.window.Clock.Now()}
	if err := p.know(ctx); err != nil {
		return err
	}
	if slices.Contains(r.ports, port) {
		return nil
	}
	want := p.expected()
	maps.Copy(want, r.used.ports)
	for _, port := range r.ports {
		want[port] = true
	}
	return p.set(ctx, want)
}

// settle sets the rule to the ports in use, and removes it when there are none. Of an incomplete list nothing is concluded
// about ports that it does not show, and nothing of one that was overtaken. What fails is logged, and tried again with the next.
func (p *Provider) settle(ctx context.Context, used usage) {
	if !p.config.Firewall.Manage {
		return
	}
	r := &p.rule
	if r.hold(ctx) != nil {
		return
	}
	defer r.release()
	if used.began.Before(r.used.began) {
		return
	}
	for made := range used.shown {
		delete(r.soon, made) // lists show it, from now on until it is gone
	}
	if !used.complete {
		maps.Copy(used.ports, r.used.ports)
	}
	r.used = used
	if p.know(ctx) != nil {
		return // logged
	}
	want := p.expected()
	maps.Copy(want, used.ports)
	if !used.complete {
		for _, port := range r.ports {
			want[port] = true
		}
	}
	if len(want) == 0 && r.ports == nil || len(want) > 0 && slices.Equal(slices.Sorted(maps.Keys(want)), r.ports) {
		return
	}
	_ = p.set(ctx, want) // logged
}

// know reads the rule unless what is known of it holds. A reading soon after a change may show what was before, and is not
// relied upon longer than the call lasts that it is for.
func (p *Provider) know(ctx context.Context) error {
	r := &p.rule
	now := p.window.Clock.Now()
	if r.settling(now) || r.read.Sub(r.changed) >= carriedOut && now.Sub(r.read) < trusted {
		return nil
	}
	found, err := p.api.firewall(ctx, r.name)
	switch {
	case absent(err):
		r.ports, r.unfit = nil, false
	case err != nil:
		return err
	case found.Description != p.ruleMarks():
		return done(ctx, verbGet, "firewalls", r.name, &foreignRuleError{r.name})
	default:
		ports, same := p.portsOf(found)
		if r.read.IsZero() {
			// Whoever let them in before this process may have done so for what a list does not show yet.
			for _, port := range ports {
				r.soon[strconv.Itoa(int(port))] = opening{port, now}
			}
		}
		if !same {
			ports = []int32{} // it is there, and none of its ports is open in the way that is wanted
		}
		r.ports, r.unfit = ports, p.unfit(found)
	}
	r.read = now
	return nil
}

// settling reports whether a change was accepted so lately that the rule counts as what was asked for.
func (r *rule) settling(now time.Time) bool { return r.sure && now.Sub(r.changed) < carriedOut }

// set makes, changes or removes the rule.
func (p *Provider) set(ctx context.Context, want map[int32]bool) error {
	r := &p.rule
	ports := slices.Sorted(maps.Keys(want))
	now := p.window.Clock.Now()
	var err error
	switch {
	case len(ports) == 0 || r.unfit:
		if err = p.api.deleteFirewall(ctx, r.name); absent(err) {
			err = nil
		}
	case r.ports == nil:
		err = p.api.insertFirewall(ctx, p.wanted(ports))
	default:
		err = p.api.updateFirewall(ctx, p.wanted(ports))
	}
	if err != nil {
		if r.settling(now) && r.ports == nil {
			return err // the one that is being removed still has the name, and must not be taken for one that stays
		}
		r.sure, r.changed = false, now
		return err
	}
	if r.unfit && len(ports) > 0 {
		ports, err = nil, errReplaced
	}
	r.ports, r.unfit, r.sure, r.changed = ports, false, true, now
	return err
}
