//go:build linux

package local_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// deleted deletes the instance and checks that nothing of it is left.
func (w *world) deleted(p provider.Provider, ref provider.Ref) {
	w.t.Helper()
	must(w.t, p.Delete(context.Background(), ref))
	w.absent(p, ref)
}

func (w *world) absent(p provider.Provider, ref provider.Ref) {
	w.t.Helper()
	if inst, err := p.Get(context.Background(), w.old(ref)); !errors.Is(err, provider.ErrNotFound) {
		w.t.Errorf("Get = %+v, %v, want ErrNotFound", inst, err)
	}
}

// target is a web server that answers with the address it is asked from.
func target(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		from, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprint(rw, from)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestInstancesOutliveTheOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(providertest.Go(t))
	w.extra = "allowDestinations: [127.0.0.0/8]\n"
	s := target(t)
	req := w.request()
	ref := w.ref(req, 1)
	w.start(job{Do: "create", Reqs: []provider.CreateRequest{req}, Refs: []provider.Ref{ref}, DieAt: "done"}).begin().ended()

	p := w.provider()
	inst := w.running(p, ref)
	status, from, err := through(address(inst), s.URL, nil)
	if err != nil || status != http.StatusOK || from != inst.ExitAddress {
		t.Errorf("through the proxy: %d, from %q, %v; want 200 from %s", status, from, err, inst.ExitAddress)
	}
	w.deleted(p, ref)
	w.nothingLeft("after Delete by the next operator")
}

func TestInstancesOutliveTheProviderObject(t *testing.T) {
	w := newWorld(providertest.Go(t))
	p := w.provider()
	ref, before := w.created(p, w.request())
	must(t, p.Close())
	if _, err := p.Get(context.Background(), ref); err == nil {
		t.Error("a closed provider answers")
	}
	p = w.provider()
	if now := w.running(p, ref); now.Identity != before.Identity {
		t.Errorf("it has identity %s, before %s", now.Identity, before.Identity)
	}
	w.deleted(p, ref)
	w.nothingLeft("after Delete")
}

func TestKilledProcessIsStopped(t *testing.T) {
	w := newWorld(providertest.Go(t))
	p := w.provider()
	ref, _ := w.created(p, w.request())
	w.kill(ref.ID)
	inst, err := p.Get(context.Background(), w.old(ref))
	if err != nil || inst.State != provider.StateStopped || inst.IP != "" || inst.Message == "" {
		t.Errorf("Get = %+v, %v, want Stopped without an address and with a message", inst, err)
	}
	w.deleted(p, ref)
	w.nothingLeft("after Delete")
}

func TestRecordRemovedByHandEndsTheProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(providertest.Go(t))
	p := w.provider()
	req := w.request()
	req.Credentials = &provider.Credentials{Username: "user", Password: "secret", Revision: "r1"}
	ref, _ := w.created(p, req)
	must(t, os.Remove(w.file(ref.ID, ".json")))
	w.eventually("the process ending by itself", func() bool { return len(w.processes()) == 0 })
	w.deleted(p, ref)
	w.nothingLeft("after Delete: the credentials too were without a record")
}

// What is damaged is not absent: the process that holds the record is still ours.
func TestADamagedRecordIsNoProofWhileItsProcessRuns(t *testing.T) {
	w := newWorld(providertest.Go(t))
	p := w.provider()
	ref, _ := w.created(p, w.request())
	path := w.file(ref.ID, ".json")
	whole, err := os.ReadFile(path)
	must(t, err)
	must(t, os.Truncate(path, 5)) // in place: the process keeps its lock
	if _, err := p.Get(context.Background(), w.old(ref)); provider.Class(err) != provider.ErrTransient {
		t.Errorf("Get = %v, want a transient error: neither absence nor somebody else's", err)
	}
	must(t, os.WriteFile(path, whole, 0o600))
	w.deleted(p, ref)
	w.nothingLeft("after Delete")
}

func TestDeleteLetsARequestFinish(t *testing.T) {
	w := newWorld(providertest.Go(t))
	w.extra = "allowDestinations: [127.0.0.0/8]\n"
	asked, signalled := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-signalled
		fmt.Fprint(rw, "whole")
	}))
	defer s.Close()
	p := w.provider()
	p.OnStep(func(step string) {
		if step == "signalled" {
			close(signalled)
		}
	})
	ref, inst := w.created(p, w.request())
	type reply struct {
		status int
		body   string
		err    error
	}
	replies := make(chan reply, 1)
	go func() {
		var r reply
		r.status, r.body, r.err = through(address(inst), s.URL, nil)
		replies <- r
	}()
	<-asked
	w.deleted(p, ref)
	if r := <-replies; r.err != nil || r.status != http.StatusOK || r.body != "whole" {
		t.Errorf("the request that was running: %+v", r)
	}
	w.nothingLeft("after Delete")
}

func TestDeleteKillsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(providertest.Go(t))
	p := w.provider()
	ref, _ := w.created(p, w.request())
	must(t, syscall.Kill(w.pid(ref.ID), syscall.SIGSTOP)) // it cannot even take SIGTERM
	began := time.Now()
	w.deleted(p, ref)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Delete took %s", took)
	}
	w.eventually("nothing being left", func() bool { return len(w.leftovers()) == 0 })
}

func TestAnOldRequestStartsNothing(t *testing.T) {
	w := newWorld(providertest.Go(t))
	p := w.provider()
	p.OnStep(func(step string) {
		if step != "looked" {
			t.Errorf("Create came as far as %q", step)
		}
	})
	req := w.request()
	err := p.Create(context.Background(), req, w.old(w.ref(req, 1)))
	expectClass(t, err, provider.ErrTransient)
	if provider.Reason(err) != provider.ReasonWindowClosed {
		t.Errorf("Create = %v with reason %q", err, provider.Reason(err))
	}
}
