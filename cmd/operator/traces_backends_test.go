package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// local runs real proxies on addresses of the loopback.
func (x *stage) local(subnet int) *backend {
	x.t.Helper()
	dir := filepath.Join(x.t.TempDir(), "state")
	b := &backend{entry: x.named("local"), kind: "local", serves: true}
	b.text = fmt.Sprintf("- name: %s\n  type: local\n  local:\n    host: host-1\n    stateDir: %s\n    allowDestinations: [127.0.0.0/8]\n    pool:\n", b.entry, dir)
	for i := range 4 {
		b.text += fmt.Sprintf("    - listen: 127.0.%d.%d\n", subnet, i+1)
	}
	// The file is the same one, since the process holds a lock on it.
	b.age = func(uid types.UID) {
		file := filepath.Join(dir, provider.NameFromUID(string(uid))+".json")
		data, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, older(data, `"createdAt": "`), 0o600)
		}
		if err != nil {
			x.t.Error(err)
		}
	}
	x.t.Cleanup(func() { // whatever happens, nothing stays
		paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			x.t.Error(err)
		}
		for _, path := range paths {
			cmdline, err := os.ReadFile(path)
			if pid, convErr := strconv.Atoi(strings.Split(path, "/")[2]); err == nil && convErr == nil && strings.Contains(string(cmdline), dir+"/") {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return b
}

var stamps = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d`)

// older makes the time after each key some minutes earlier.
func older(data []byte, key string) []byte {
	return regexp.MustCompile(regexp.QuoteMeta(key)+stamps.String()).ReplaceAllFunc(data, func(found []byte) []byte {
		const form = "2006-01-02T15:04:05"
		at, err := time.Parse(form, string(found[len(key):]))
		if err != nil {
			return found
		}
		return append(found[:len(key):len(key)], at.Add(-head).Format(form)...)
	})
}

// gcpEntry is one without credentials.
func (x *stage) gcpEntry(name, endpoint string) *backend {
	b := &backend{entry: x.named(name), kind: "gcp", cloudInit: true, serves: true}
	b.text = fmt.Sprintf("- name: %s\n  type: gcp\n  gcp:\n    project: project-a\n    endpoint: %s\n    anonymous: true\n    firewall: {existingSourceRanges: [10.0.0.0/8]}\n",
		b.entry, endpoint)
	b.placement = func(string) *v1alpha1.Placement {
		return &v1alpha1.Placement{Zone: "us-central1-a", MachineType: "e2-micro", Image: "projects/debian-cloud/global/images/family/debian-12"}
	}
	return b
}

// emulator starts one whose instances are proxies of this process.
func (x *stage) emulator(addresses []string) (endpoint string) {
	x.t.Helper()
	e, err := gcpemulator.New(gcpemulator.Options{Clock: earlier{}, Addresses: addresses}).Listen(x.t.Context(), "127.0.0.1:0")
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() {
		if err := e.Close(); err != nil {
			x.t.Error(err)
		}
	})
	return e.URL
}

// gcp has instances that are old enough from their beginning.
func (x *stage) gcp(subnet int) *backend {
	b := x.gcpEntry("gcp", front(x.t, x.ears, "Compute Engine", x.emulator(places(x.t, x.ears, "a VM", subnet, 6, x.port))))
	b.age = func(types.UID) {}
	return b
}

// answering is a Compute Engine that answers everything in one way.
func (x *stage) answering(name string, answer http.HandlerFunc) *backend {
	s := httptest.NewServer(x.at(name, answer))
	x.t.Cleanup(s.Close)
	return x.gcpEntry(name, s.URL)
}

// broken is one that fails.
func (x *stage) broken() *backend {
	return x.answering("broken", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"code":503,"message":"try again","errors":[{"reason":"backendError","message":"try again"}]}}`, http.StatusServiceUnavailable)
	})
}

// denied is one that does not accept the operator.
func (x *stage) denied() *backend {
	return x.answering("denied", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"code":401,"message":"who are you?","errors":[{"reason":"authError","message":"who are you?"}]}}`, http.StatusUnauthorized)
	})
}

// refusing is one where nobody listens.
func (x *stage) refusing() *backend { return x.gcpEntry("refusing", "http://"+ownAddress(x.t)) }

// userData is what a request to make a VM holds of it.
var userData = regexp.MustCompile(`#cloud-config[^"]*`)

// quoting is one that takes no instance, and says why in the words of the request.
func (x *stage) quoting() *backend {
	x.t.Helper()
	at, err := url.Parse(x.emulator(nil))
	if err != nil {
		x.t.Fatal(err)
	}
	next := httputil.NewSingleHostReverseProxy(at)
	return x.answering("quoting", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(body), secretPassword) {
			x.t.Errorf("the request does not hold the user-data: %v", err)
		}
		said := strconv.Quote("not understood: " + userData.FindString(string(body)))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"error":{"code":400,"message":%s,"errors":[{"reason":"invalid","message":%s}]}}`, said, said)
	})
}

// unreachable is a hypervisor without a daemon.
func (x *stage) unreachable() *backend {
	b := x.kvmEntry("unreachable", map[string]string{"hv-x": "socket: /nonexistent/" + x.ns})
	b.placement = func(string) *v1alpha1.Placement {
		return &v1alpha1.Placement{Zone: "hv-x", MachineType: "small", Image: "debian"}
	}
	return b
}

// request asks the operator's API under a header of a trace, and returns the status.
func (x *stage) request(ctx context.Context, method, path, body, traceparent string) (status int, answer string) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+x.op.api+path, strings.NewReader(body))
	if err != nil {
		x.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer t0ken-of-the-test")
	if traceparent != "" {
		req.Header.Set("Traceparent", traceparent)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, ""
	}
	return res.StatusCode, string(data)
}
