package kubernetes_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kubernetes"
)

func TestRotation(t *testing.T) {
	w := newT(t)
	p := w.provider()
	req := w.guarded()
	ref, _ := w.created(p, req)
	next := provider.Credentials{Username: "user", Password: "another", Revision: "r2"}
	must(t0(t), p.UpdateCredentials(t.Context(), ref, next))
	if got := w.pod(ref.ID).Annotations["proxy-operator-credentials"]; got != "r2" {
		t.Errorf("the kubelet sees revision %q", got)
	}
	// A restarted operator hands everything over again; that must cost no writes.
	w.wire.mu.Lock()
	w.wire.seen = nil
	w.wire.mu.Unlock()
	must(t0(t), w.provider().UpdateCredentials(t.Context(), ref, next))
	for _, call := range w.wire.seen {
		if !strings.HasPrefix(call, http.MethodGet) {
			t.Errorf("the same again did %s", call)
		}
	}
	for what, creds := range map[string]provider.Credentials{
		"no password": {Username: "u"}, "a colon": {Username: "a:b", Password: "p"}, "a line's end": {Username: "u", Password: "p\n"},
		"a comment": {Username: "#u", Password: "p"}, "a space": {Username: " u", Password: "p"}, "too long": {Username: "u", Password: strings.Repeat("p", 73)},
	} {
		expect(t, what, p.UpdateCredentials(t.Context(), ref, creds), provider.ErrPermanent, "")
	}
	// Another Pod of the name is another instance.
	reached, release := w.wire.hold(method(http.MethodPut))
	done := make(chan error, 1)
	go func() {
		done <- p.UpdateCredentials(t.Context(), ref, provider.Credentials{Username: "user", Password: "third", Revision: "r3"})
	}()
	<-reached
	must(t0(t), p.Delete(t.Context(), ref))
	must(t0(t), w.wait(t.Context()))
	again := w.ref(req, 2)
	must(t0(t), p.Create(t.Context(), req, again))
	release()
	if err := <-done; err == nil {
		t.Error("the update of an instance that was replaced meanwhile succeeded")
	}
	secret, err := w.kube.CoreV1().Secrets(w.namespace).Get(t.Context(), req.Name, metav1.GetOptions{})
	if err != nil || secret.Annotations["proxy-operator-credentials"] != "r1" {
		t.Errorf("the next instance's Secret: %v, %v", secret.Annotations, err)
	}
}

func TestRotationNeedsTheInstance(t *testing.T) {
	w := newT(t)
	p := w.provider()
	creds := provider.Credentials{Username: "user", Password: "p", Revision: "r2"}
	ref := w.ref(w.guarded(), 1)
	expect(t, "within the window", p.UpdateCredentials(t.Context(), ref, creds), provider.ErrTransient, "")
	expect(t, "after it", p.UpdateCredentials(t.Context(), w.old(ref), creds), provider.ErrNotFound, "")
	ref, _ = w.created(p, w.guarded())
	must(t0(t), w.kube.CoreV1().Secrets(w.namespace).Delete(t.Context(), nameIn(ref.ID), metav1.DeleteOptions{}))
	expect(t, "without its Secret", p.UpdateCredentials(t.Context(), ref, creds), provider.ErrPermanent, "")
	if inst, err := p.Get(t.Context(), ref); err != nil || inst.State != provider.StateRunning {
		t.Errorf("it still serves, but is %+v, %v", inst, err)
	}
	ref, _ = w.created(p, w.guarded())
	w.remove(nameIn(ref.ID), w.pod(ref.ID).UID)
	expect(t, "without its Pod", p.UpdateCredentials(t.Context(), ref, creds), provider.ErrTransient, "")
}

func TestLogsSayWhatHappenedAndNothingSecret(t *testing.T) {
	w := newT(t)
	p := w.provider()
	var lines []string
	log := funcr.New(func(prefix, args string) { lines = append(lines, prefix+" "+args) }, funcr.Options{Verbosity: 10})
	ctx := logr.NewContext(t.Context(), log)
	req := w.guarded()
	req.Credentials.Password = "sentinel-password"
	ref := w.ref(req, 1)
	must(t0(t), p.Create(ctx, req, ref))
	_, _ = p.Get(ctx, ref)
	_, _ = p.ListByTag(ctx)
	_ = p.UpdateCredentials(ctx, ref, provider.Credentials{Username: "u", Password: "sentinel-password-2", Revision: "r2"})
	_ = p.Create(ctx, req, w.old(ref))
	_ = p.Delete(ctx, ref)
	all := strings.Join(lines, "\n")
	for _, op := range []string{"create", "get", "list", "updatecredentials", "delete"} {
		if !strings.Contains(all, `"op"="`+op+`"`) {
			t.Errorf("no line about %s", op)
		}
	}
	// client-go has a logger of its own taste: from level 8 on it writes whole bodies, be they in hexadecimal.
	if strings.Contains(all, "sentinel") || strings.Contains(all, "Body") || strings.Contains(all, "$2b$") {
		t.Errorf("secrets in\n%s", all)
	}
	if !strings.Contains(all, `"provider"="`+entry+`"`) || !strings.HasPrefix(lines[0], kubernetes.Type) {
		t.Errorf("lines lack the provider:\n%s", all)
	}
}
