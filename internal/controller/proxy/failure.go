package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

// askedMark stands in a latch's revision before the mark of the wish for another instance.
const askedMark = "/"

// unprovenMessage is about a failure that was answered before its attempt is proven to have left nothing.
const unprovenMessage = "the last attempt is not proven absent yet; the next follows by itself"

// failure is an error as a person sees it and as long as it asks to wait.
type failure struct {
	reason, message string
	// first and limit bound the wait: it starts at first and doubles with every failure in a row.
	first, limit time.Duration
	// asked: the backend has asked for this wait.
	asked bool
	// shut: the gate of the backend's target is shut. It is the gate that keeps calls away until it opens, not the wait.
	shut bool
}

// wait returns how long to wait after the n-th failure in a row, counted from 0.
func (f failure) wait(n int) time.Duration {
	if n > 20 {
		return f.limit
	}
	return min(f.first<<n, f.limit)
}

// failureOf classifies err, and counts it: the one place where an error's class turns into a reason and a wait.
func (ps *pass) failureOf(err error) failure {
	f := failure{message: provider.Cause(err)}
	switch provider.Class(err) {
	case provider.ErrQuotaExceeded:
		f.reason, f.first, f.limit = v1alpha1.ReasonQuotaExceeded, ps.r.Intervals.QuotaRetry, ps.r.Intervals.QuotaRetry
	case provider.ErrPermanent:
		f.reason, f.first, f.limit = v1alpha1.ReasonPermanentError, 10*time.Minute, 6*time.Hour
	case provider.ErrConflict:
		f.reason, f.first, f.limit = v1alpha1.ReasonConflict, 10*time.Minute, 6*time.Hour
	case provider.ErrDenied:
		f.reason, f.first, f.limit = v1alpha1.ReasonProviderUnavailable, time.Minute, 15*time.Minute
	default:
		f.reason, f.first, f.limit = v1alpha1.ReasonProvisioning, time.Second, 5*time.Minute
	}
	switch r := provider.Reason(err); r {
	case provider.ReasonScopeMismatch, provider.ReasonOpenProxyRefused:
		f.reason = r
	case provider.ReasonUnreachable:
		f.reason = v1alpha1.ReasonProviderUnavailable
	}
	if after := provider.RetryAfter(err); after > 0 {
		// A ninth on top, so that the jitter never makes it shorter than asked for.
		after = min(after, time.Hour)
		f.first = after + after/9 + time.Millisecond
		f.limit, f.shut = f.first, instrument.IsShut(err)
		f.asked = !f.shut
	}
	ps.metrics().Failure(ps.handle.Name, f.reason)
	return f
}

// fail stages a failed creation: its reason, and a latch that holds the next attempt back.
func (ps *pass) fail(err error) (wait time.Duration) {
	f := ps.failureOf(err)
	latch := ptr.Deref(ps.p.Status.Latch, v1alpha1.Latch{})
	wait = ps.r.jitter(f.wait(int(latch.Attempts)))
	if f.asked {
		ps.r.memory.rest(ps.key, ps.r.Clock.Now().Add(wait))
	}
	ps.r.memory.with(ps.key, func(e *entry) { e.failedLate = ps.late })
	latch.Reason, latch.SpecMark, latch.Revision = f.reason, ps.want.mark, ps.failing()
	latch.Attempts++
	latch.NextRetryTime = ptr.To(metav1.NewMicroTime(ps.now().Add(wait)))
	ps.p.Status.Latch = &latch
	ps.provisioned(metav1.ConditionFalse, f.reason, f.message)
	return wait
}

// fresh reports whether the failure in sight is not on record yet: opening an attempt clears the time of the last one.
func (ps *pass) fresh() bool {
	l := ps.p.Status.Latch
	return l == nil || l.NextRetryTime == nil
}

// held reports whether a failure on record still holds the next attempt back, and for how long. A change of the spec,
// of what it refers to or of the provider's entry releases it at once.
func (ps *pass) held() (left time.Duration, held bool) {
	l := ps.p.Status.Latch
	if l == nil || l.NextRetryTime == nil {
		return 0, false
	}
	if ps.moved() || ps.gateHolds(l) {
		return 0, false
	}
	left = l.NextRetryTime.Sub(ps.r.Clock.Now())
	return left, left > 0
}

// gateHolds reports whether a failure is one of the backend's target that has a gate: as long as that is shut it refuses the
// next attempt anyway, and once it is open nothing else holds that back. What failed after it had been accepted shuts no gate.
func (ps *pass) gateHolds(l *v1alpha1.Latch) (yes bool) {
	if l.Reason != v1alpha1.ReasonProviderUnavailable || !instrument.HasGate(ps.handle.Provider) {
		return false
	}
	ps.r.memory.with(ps.key, func(e *entry) { yes = !e.failedLate })
	return yes
}

// unavailable ends a pass that could not even ask for an instance. Nothing is latched.
func (ps *pass) unavailable(ctx context.Context, err error) (ctrl.Result, error) {
	f := ps.failureOf(err)
	ps.provisioned(metav1.ConditionFalse, f.reason, f.message)
	ps.health()
	return ps.record(ctx, func() ctrl.Result { return ps.tryAgain(f) })
}

// moved reports whether something has changed since the failure on record, or a person has asked for another instance since.
func (ps *pass) moved() bool {
	l := ps.p.Status.Latch
	c := meta.FindStatusCondition(ps.base.Status.Conditions, v1alpha1.ConditionProvisioned)
	revision := l.Revision
	if !ps.replaceAsked() {
		revision, _, _ = strings.Cut(revision, askedMark) // to take the wish back is no wish
	}
	return c == nil || c.ObservedGeneration != ps.p.Generation || l.SpecMark != ps.want.mark || revision != ps.failing()
}

// letGo stages that the failure on record holds the next attempt back no longer, only the last one does.
func (ps *pass) letGo() {
	l := ps.p.Status.Latch
	l.SpecMark, l.Revision, l.NextRetryTime = ps.want.mark, ps.failing(), ptr.To(ps.now())
	ps.provisioned(metav1.ConditionFalse, v1alpha1.ReasonProvisioning, unprovenMessage)
}

// failing is the revision of what a creation is made from besides the spec: of the provider's entry, of credentials that can
// be rotated, which are not in the spec mark, and of the wish for another instance, as long as no attempt answers it.
func (ps *pass) failing() string {
	revision := ps.handle.Revision
	if ps.creds != nil {
		revision += "." + ps.creds.Revision
	}
	if ps.replaceAsked() {
		sum := sha256.Sum256([]byte(ps.replaceValue()))
		revision += askedMark + hex.EncodeToString(sum[:8])
	}
	return revision
}

func quota(name string, err error) error {
	return provider.Wrap(provider.ErrQuotaExceeded, "plan", name, "", err)
}
