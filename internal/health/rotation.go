package health

import (
	"context"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

const (
	// rotationTime is for how long at least a proxy that takes the credentials from before a rotation is offered under those.
	// An External one is no longer: whoever changed the Secret has changed the proxy, or has made a mistake. A Managed one is
	// for as long as it takes them: it waits for the operator to hand the new ones over, or for its turn to be replaced.
	rotationTime = 2 * time.Minute
	// rotationProbe is the longest pause between two probes meanwhile.
	rotationProbe = 10 * time.Second
)

// probe makes the probe of j. While credentials are being rotated it tries the new ones and those from before side by side:
// one after the other, each would have half of the time-out, which a slow proxy does not make. rotated is true when the new
// ones work; otherwise the result is that of the old ones.
func (e *Engine) probe(ctx context.Context, j *job) (r Result, rotated bool) {
	t := TargetOf(j.proxy)
	t.Due = e.base.Add(j.due)
	if j.proxy.Next == nil {
		return e.opts.Prober.Probe(ctx, t), false
	}
	old := make(chan Result, 1)
	go func() { old <- e.opts.Prober.Probe(ctx, t) }()
	next := t
	next.Credentials = j.proxy.Next
	r = e.opts.Prober.Probe(ctx, next)
	// Whatever is wrong with the new ones: a proxy need not say 407 to those that it does not know.
	if other := <-old; !r.OK {
		return other, false
	}
	return r, true
}

// rotate puts the new credentials of st into force once they have worked, or when the time for the old ones is over. It is
// false when the probe was about credentials that are neither any more: the rotation was taken back meanwhile, or goes
// elsewhere.
func (e *Engine) rotate(st *state, j *job, r Result, rotated bool) bool {
	next := st.proxy.Next
	switch {
	case rotated && (next == nil || j.proxy.Next.Revision != next.Revision):
		return false
	case next == nil:
	case rotated:
		// The verdict moves along: this very probe confirms it.
		v := st.judge.verdict
		v.Subject.CredentialRevision = next.Revision
		if !e.opts.Store.Promote(st.proxy.Key, next.Revision, v) {
			return false
		}
		st.judge.verdict = v
		st.judge.before.Subject = v.Subject
		promoted := *st.proxy
		promoted.Credentials, promoted.Next = next, nil
		st.proxy = &promoted
	case e.now()-st.rotatedAt < rotationTime:
	case r.Reason == v1alpha1.ReasonProxyAuthFailed, r.OK && st.proxy.Mode == v1alpha1.ModeExternal:
		subject := st.proxy.Subject()
		subject.CredentialRevision = next.Revision
		// The watcher brings the change, and with it a new subject.
		e.opts.Store.Promote(st.proxy.Key, next.Revision, fleet.Verdict{Subject: subject})
	}
	return true
}

// subject is that of the Proxy as its spec now is.
func (st *state) subject() fleet.Subject {
	s := st.judge.verdict.Subject
	if next := st.proxy.Next; next != nil {
		s.CredentialRevision = next.Revision
	}
	return s
}

// sameNext reports whether a and b are being rotated to the same credentials.
func sameNext(a, b *fleet.Proxy) bool {
	return (a.Next == nil) == (b.Next == nil) && (a.Next == nil || a.Next.Revision == b.Next.Revision)
}
