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

// probe makes the probe of j. While credentials are being rotated it tries the new ones and, when the proxy does not take
// them, those from before; rotated is true when the new ones work. All of it ends by the one time-out of the probe.
func (e *Engine) probe(ctx context.Context, j *job) (r Result, rotated bool) {
	t := TargetOf(j.proxy)
	t.Due = e.base.Add(j.due)
	if j.proxy.Next == nil {
		return e.opts.Prober.Probe(ctx, t), false
	}
	t.Credentials = j.proxy.Next
	if r = e.opts.Prober.Probe(ctx, t); r.OK || r.Reason != v1alpha1.ReasonProxyAuthFailed {
		return r, r.OK
	}
	t.Credentials = j.proxy.Credentials
	timeout := t.Probe.Timeout
	if timeout <= 0 {
		timeout = v1alpha1.DefaultProbeTimeout
	}
	if t.Probe.Timeout = timeout - r.Latency; t.Probe.Timeout <= 0 {
		return r, false
	}
	return e.opts.Prober.Probe(ctx, t), false
}

// rotate puts the new credentials of st into force once they have worked, or when the time for the old ones is over.
func (e *Engine) rotate(st *state, j *job, r Result, rotated bool) {
	next := st.proxy.Next
	switch {
	case next == nil:
	case rotated && j.proxy.Next.Revision == next.Revision:
		// The verdict moves along: this very probe confirms it.
		v := st.judge.verdict
		v.Subject.CredentialRevision = next.Revision
		if e.opts.Store.Promote(st.proxy.Key, next.Revision, v) {
			st.judge.verdict = v
			st.judge.before.Subject = v.Subject
			promoted := *st.proxy
			promoted.Credentials, promoted.Next = next, nil
			st.proxy = &promoted
		}
	case e.now()-st.rotatedAt >= rotationTime && (!r.OK || st.proxy.Mode == v1alpha1.ModeExternal):
		subject := st.proxy.Subject()
		subject.CredentialRevision = next.Revision
		// The watcher brings the change, and with it a new subject.
		e.opts.Store.Promote(st.proxy.Key, next.Revision, fleet.Verdict{Subject: subject})
	}
}

// sameNext reports whether a and b are being rotated to the same credentials.
func sameNext(a, b *fleet.Proxy) bool {
	return (a.Next == nil) == (b.Next == nil) && (a.Next == nil || a.Next.Revision == b.Next.Revision)
}
