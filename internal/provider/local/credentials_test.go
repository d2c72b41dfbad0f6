//go:build linux

package local_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

func TestCredentialsRotateWithinThreeSeconds(t *testing.T) {
	t.Parallel()
	w := newWorld(providertest.Go(t))
	p := w.provider()
	before := provider.Credentials{Username: "user", Password: "first:secret", Revision: "r1"}
	after := provider.Credentials{Username: "user", Password: "second:secret", Revision: "r2"}
	req := w.request()
	req.Credentials = &before
	ref, inst := w.created(p, req)
	accepts := func(c *provider.Credentials) bool {
		status, _, err := through(address(inst), "http://127.0.0.1:1/", c)
		must(t, err)
		return status != http.StatusProxyAuthRequired
	}
	if !accepts(&before) || accepts(&after) || accepts(nil) {
		t.Fatal("the proxy does not ask for the credentials it was created with")
	}
	// Short of time, a call may come right after the proxy has looked at its file.
	must(t, p.UpdateCredentials(context.Background(), ref, after))
	if !within(3*time.Second, func() bool { return accepts(&after) && !accepts(&before) }) {
		t.Error("the proxy has not taken the new credentials, and those alone, within 3 s")
	}
	if now := w.running(p, ref); now.Identity != inst.Identity {
		t.Error("the rotation replaced the instance")
	}
	info, err := os.Stat(w.file(ref.ID, ".auth"))
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the credentials' file has mode %04o", info.Mode().Perm())
	}
	w.deleted(p, ref)
	w.nothingLeft("after Delete")
}

func TestCredentialsShowNowhere(t *testing.T) {
	const user, secret = "sentinel-user-41c7", "sentinel-secret-d08e"
	w := newWorld(providertest.Go(t))
	p := w.provider()
	req := w.request()
	req.Credentials = &provider.Credentials{Username: user, Password: secret, Revision: "r1"}
	ref, inst := w.created(p, req)
	for range 2 { // with the right ones and with others
		_, _, err := through(address(inst), "http://127.0.0.1:1/", req.Credentials)
		must(t, err)
	}
	said := map[string]string{}
	read := func(file string) {
		data, err := os.ReadFile(file)
		must(t, err)
		said[file] = string(data)
	}
	proc := "/proc/" + strconv.Itoa(w.pid(ref.ID))
	read(proc + "/cmdline")
	read(proc + "/environ")
	read(w.file(ref.ID, ".log"))
	read(w.file(ref.ID, ".json"))
	if said[proc+"/environ"] != "" {
		t.Errorf("the process has an environment: %q", said[proc+"/environ"])
	}
	for _, file := range []string{".log", ".json"} {
		if info, err := os.Stat(w.file(ref.ID, file)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	shown, err := json.Marshal(inst)
	must(t, err)
	said["the instance"] = string(shown)
	for what, creds := range map[string]provider.Credentials{
		"a colon in the user name": {Username: user + ":", Password: secret}, "no user name": {Password: secret}, "no password": {Username: user},
		"a line break": {Username: user, Password: secret + "\n"}, "too long": {Username: user, Password: strings.Repeat(secret, 300)},
	} {
		bad := w.request()
		bad.Credentials = &creds
		_, err := p.Plan(context.Background(), bad)
		expectClass(t, err, provider.ErrPermanent)
		said["Plan with "+what] = err.Error()
		err = p.Create(context.Background(), bad, w.ref(bad, 1))
		expectClass(t, err, provider.ErrPermanent)
		said["Create with "+what] = err.Error()
		err = p.UpdateCredentials(context.Background(), ref, creds)
		expectClass(t, err, provider.ErrPermanent)
		said["UpdateCredentials with "+what] = err.Error()
		if !strings.Contains(err.Error(), "spec.auth") {
			t.Errorf("%s: the message does not name spec.auth: %v", what, err)
		}
	}
	for where, text := range said {
		if strings.Contains(text, user) || strings.Contains(text, secret) {
			t.Errorf("%s shows the credentials: %s", where, text)
		}
	}
	w.deleted(p, ref)
}

func TestLongestCredentialsWork(t *testing.T) {
	w := newWorld(providertest.Go(t))
	p := w.provider()
	req := w.request()
	req.Credentials = &provider.Credentials{Username: "user", Password: strings.Repeat("x", 4094-4), Revision: "r1"}
	ref, inst := w.created(p, req)
	status, _, err := through(address(inst), "http://127.0.0.1:1/", req.Credentials)
	if err != nil || status == http.StatusProxyAuthRequired {
		t.Errorf("the longest credentials that Plan takes: %d, %v", status, err)
	}
	w.deleted(p, ref)
	req = w.request()
	req.Credentials = &provider.Credentials{Username: "user", Password: strings.Repeat("x", 4094-3)}
	_, err = p.Plan(context.Background(), req)
	expectClass(t, err, provider.ErrPermanent)
}

func TestUpdateCredentialsWhereThereIsNothingToUpdate(t *testing.T) {
	w := newWorld(providertest.Go(t))
	p := w.provider()
	creds := provider.Credentials{Username: "user", Password: "secret", Revision: "r1"}
	absent := w.ref(w.request(), 1)
	expectClass(t, p.UpdateCredentials(context.Background(), absent, creds), provider.ErrTransient)
	expectClass(t, p.UpdateCredentials(context.Background(), w.old(absent), creds), provider.ErrNotFound)
	open, _ := w.created(p, w.request())
	expectClass(t, p.UpdateCredentials(context.Background(), open, creds), provider.ErrPermanent)
	w.deleted(p, open)
}
