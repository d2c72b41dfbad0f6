package instrument

import (
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Report tells the gates of p what a check has found that began just now, or Begin where it takes time.
func Report(p provider.Provider, statuses []provider.TargetStatus) { Begin(p)(statuses) }

// Begin notes that a check of p's targets (provider.Checker) begins. The returned function takes what it has found: a
// target that is Ready opens its gate, one that is denied or unreachable closes it (see WithGuard), any other state leaves
// it as it is. What happened since the check began counts for more. All statuses of a provider without targets
// (provider.Targeter) are about one, and the worst counts. Neither blocks; without a guard around p nothing happens.
func Begin(p provider.Provider) (report func([]provider.TargetStatus)) {
	g := guardOf(p)
	if g == nil {
		return func([]provider.TargetStatus) {}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	began := g.next()
	return func(statuses []provider.TargetStatus) { g.report(began, statuses) }
}

func (g *guarded) report(began order, statuses []provider.TargetStatus) {
	found := map[string]provider.TargetStatus{}
	for _, s := range statuses {
		name := s.Target
		if g.targeter == nil {
			name = ""
		}
		if before, ok := found[name]; !ok || weight(s) > weight(before) {
			found[name] = s
		}
	}
	var opened []string
	g.mu.Lock()
	for name, s := range found {
		if s.Ready && g.target(listTarget).checkedReady(began, g.next(), g.clock.Now()) {
			opened = append(opened, listTarget)
		}
		if g.checked(name, s, began) {
			opened = append(opened, name)
		}
	}
	g.mu.Unlock()
	g.tell(opened...)
}

// weight orders what may be said of one target by how much it counts.
func weight(s provider.TargetStatus) int {
	if s.Ready {
		return 1
	}
	return 2 * int(shutBy(s))
}

// checked notes what a check has found of a target, and reports whether that has opened its gate.
func (g *guarded) checked(name string, s provider.TargetStatus, began order) (opened bool) {
	t, how := g.target(name), shutBy(s)
	switch {
	case s.Ready:
		return t.checkedReady(began, g.next(), g.clock.Now())
	case how == shutNot, began < t.heard, began < t.gate.openedAt:
		return false // a call that began after the check was answered, or the gate has opened since
	case t.gate.shut == how:
		// The canary's turn does not come later for it. Only another reason than that of the last check is news.
		if t.gate.word != "" && t.gate.word != s.Reason {
			t.gate.cause = worded(s)
		}
	default:
		t.trusted = false
		t.gate.close(g.next(), g.clock.Now(), how, worded(s))
	}
	t.gate.word = s.Reason
	return false
}

// checkedReady opens the gate if it was shut before the check began. The target is not trusted for that: one call is the
// first to be answered.
func (t *target) checkedReady(began, now order, at time.Time) (opened bool) {
	return t.gate.shut != shutNot && began > t.gate.shutAt && t.gate.open(now, at)
}

func worded(s provider.TargetStatus) string {
	if s.Message == "" {
		return s.Reason
	}
	return s.Reason + ": " + s.Message
}

// shutBy says in which way the target of a status is shut. Denied is everything whose cure is a credential, a right or a
// host's key. What has another cure (a full pool, a missing network) closes no gate: the target answers.
func shutBy(s provider.TargetStatus) shut {
	if s.Ready {
		return shutNot
	}
	switch s.Reason {
	case provider.CheckUnauthorized, provider.CheckForbidden,
		// Those of provider kvm.
		"SSHAuthFailed", "HostKeyUnknown", "HostKeyMismatch", "HostKeyRevoked", "KeyUnreadable", "KnownHostsUnreadable", "HostMismatch":
		return shutDenied
	case provider.CheckUnreachable, provider.CheckTimeout, "SSHHandshakeFailed", "LibvirtUnreachable":
		return shutSilent
	}
	return shutNot
}
