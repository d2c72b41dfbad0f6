package proxy

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

const handoverFailed = "handing over changed credentials failed: "

// handoverFailed reports whether the status says that the last try failed, and the credentials are still to be handed over.
func (ps *pass) handoverFailed() bool {
	ref, ok := ps.ref()
	c := meta.FindStatusCondition(ps.base.Status.Conditions, v1alpha1.ConditionProvisioned)
	return ok && c != nil && c.Status == metav1.ConditionTrue && strings.HasPrefix(c.Message, handoverFailed) &&
		ps.creds != nil && ps.r.memory.handed(ps.key, ref.Attempt) != ps.creds.Revision
}

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
		ps.keepProvisioned(f.reason, handoverFailed+f.message)
		if err := ps.write(ctx); err != nil {
			return ctrl.Result{}, err
		}
		return ps.retry(f, ps.failed()), nil
	}
	ps.r.memory.hand(ps.key, ref.Attempt, ps.creds.Revision)
	return ps.removeStrays(ctx)
}
