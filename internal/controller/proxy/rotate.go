package proxy

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

// rotate hands changed credentials to a running instance whose provider can take them. What this process handed over it
// remembers; after a restart it does so once more, for the call is idempotent and nothing on record tells.
func (ps *pass) rotate(ctx context.Context) (ctrl.Result, error) {
	ref, ok := ps.ref()
	updater, can := instrument.As[provider.CredentialUpdater](ps.handle.Provider)
	if !ok || !can || ps.creds == nil || ps.blocked != nil || ps.r.memory.handed(ps.key, ref.Attempt) == ps.creds.Revision {
		return ps.removeStrays(ctx)
	}
	if err := ps.writeToAct(ctx); err != nil {
		return ctrl.Result{}, err
	}
	cctx, cancel := context.WithTimeout(ctx, ps.r.CallTimeout)
	defer cancel()
	if err := updater.UpdateCredentials(cctx, ref, *ps.creds); busy(err) {
		return ps.queue(ctx)
	} else if err != nil {
		f := ps.failureOf(err)
		ps.keepProvisioned(f.reason, "handing over changed credentials failed: "+f.message)
		if err := ps.write(ctx); err != nil {
			return ctrl.Result{}, err
		}
		return ps.retry(f, ps.r.memory.failed(ps.key)), nil
	}
	ps.r.memory.hand(ps.key, ref.Attempt, ps.creds.Revision)
	return ps.removeStrays(ctx)
}
