package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// fleetOnHost is a fleet of real proxies of a real operator on the real control plane.
type fleetOnHost struct {
	t         *testing.T
	c         client.Client
	dir       string
	port      int
	providers string
	// origin is what probes fetch: a replacement holds its place until the new instance is healthy.
	origin string
}

func newFleetOnHost(t *testing.T, subnet int) *fleetOnHost {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(apiConfig, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(origin.Close)
	f := &fleetOnHost{t: t, c: c, dir: filepath.Join(t.TempDir(), "state"), origin: origin.URL}
	f.port, _ = strconv.Atoi(port)
	f.providers = fmt.Sprintf("providers:\n- name: host\n  type: local\n  local:\n    stateDir: %s\n    allowDestinations: [127.0.0.0/8]\n    pool:\n", f.dir)
	for i := range 8 {
		f.providers += fmt.Sprintf("    - listen: 127.0.%d.%d\n", subnet, i+1)
	}
	t.Cleanup(func() { // whatever happens, nothing stays
		for _, pid := range f.processes() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return f
}

func (f *fleetOnHost) create(name string) {
	f.t.Helper()
	p := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1alpha1.ProxySpec{
			Mode: v1alpha1.ModeManaged, Provider: "host", Port: ptr.To(int32(f.port)),
			HealthCheck: &v1alpha1.HealthCheck{URL: f.origin, Interval: v1alpha1.NewDuration(time.Second)},
		},
	}
	if err := f.c.Create(f.t.Context(), p); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleetOnHost) remove(name string) {
	p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := f.c.Delete(f.t.Context(), p); client.IgnoreNotFound(err) != nil {
		f.t.Fatal(err)
	}
}

// ask asks for a new instance.
func (f *fleetOnHost) ask(name, value string) {
	p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationReplace, value)
	if err := f.c.Patch(f.t.Context(), p, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		f.t.Fatal(err)
	}
}

// processes are the pids of proxies with a record in the fleet's folder.
func (f *fleetOnHost) processes() (pids []int) {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		f.t.Fatal(err)
	}
	for _, path := range paths {
		cmdline, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(cmdline), "egress-proxy") && strings.Contains(string(cmdline), f.dir+"/") {
			pid, err := strconv.Atoi(strings.Split(path, "/")[2])
			if err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// wrong says what is not yet as it must be: one process and one record for each living Proxy, and nothing else.
func (f *fleetOnHost) wrong() error {
	var list v1alpha1.ProxyList
	if err := f.c.List(f.t.Context(), &list); err != nil {
		return err
	}
	for _, p := range list.Items {
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProvisioned)
		if !p.DeletionTimestamp.IsZero() || c == nil || c.Reason != v1alpha1.ReasonCreated || c.ObservedGeneration != p.Generation {
			return fmt.Errorf("%s is not settled: %+v", p.Name, c)
		}
		if v := p.Annotations[v1alpha1.AnnotationReplace]; v != p.Status.Replaced {
			return fmt.Errorf("%s was asked to be replaced (%q), answered is %q", p.Name, v, p.Status.Replaced)
		}
		if _, err := os.Stat(filepath.Join(f.dir, provider.NameFromUID(string(p.UID))+".json")); err != nil {
			return err
		}
	}
	files, err := filepath.Glob(filepath.Join(f.dir, "*.json"))
	if err != nil {
		return err
	}
	if got := f.processes(); len(got) != len(list.Items) || len(files) != len(list.Items) {
		return fmt.Errorf("%d Proxies, %d processes, %d records", len(list.Items), len(got), len(files))
	}
	return nil
}

func (f *fleetOnHost) converges(within time.Duration) {
	f.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(f.t.Context(), 100*time.Millisecond, within, true, func(context.Context) (bool, error) {
		last = f.wrong()
		return last == nil, nil
	})
	if err != nil {
		f.t.Fatalf("not converged within %s: %v", within, last)
	}
}

// TestKilledAtAnyInstantItConverges kills the real operator with SIGKILL at random instants while Proxies are created,
// replaced and deleted. KILL_SEED replays it.
//
//nolint:paralleltest // one fleet at a time, for the objects share a namespace
func TestKilledAtAnyInstantItConverges(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("KILL_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("KILL_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	f := newFleetOnHost(t, 84)
	for i := range 8 {
		p := startOperator(t, f.providers, "--drift-poll", "1s")
		switch i % 4 {
		case 0:
			f.create(fmt.Sprintf("kill-%d-a", i))
			f.create(fmt.Sprintf("kill-%d-b", i))
		case 1, 3:
			f.ask(fmt.Sprintf("kill-%d-a", i/4*4), strconv.Itoa(i))
		case 2:
			f.remove(fmt.Sprintf("kill-%d-b", i/4*4))
		}
		// The start takes about a second and the first pass some milliseconds more.
		select {
		case <-time.After(time.Duration(1000+random.IntN(600)) * time.Millisecond):
		case err := <-p.ended:
			t.Fatalf("the operator ended by itself: %v", err)
		}
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-p.ended
	}
	last := startOperator(t, f.providers, "--drift-poll", "1s")
	f.converges(90 * time.Second)
	for _, name := range []string{"kill-0-a", "kill-4-a"} {
		f.remove(name)
	}
	f.converges(60 * time.Second)
	if n := len(f.processes()); n != 0 {
		t.Fatalf("%d processes are left", n)
	}
	if err := last.stop(t); err != nil {
		t.Fatal(err)
	}
}

// TestAStoppedLeaderDoesNoHarmWhenItWakes stops the leader's process, lets another take over, and wakes it up again.
//
//nolint:paralleltest // the election is one
func TestAStoppedLeaderDoesNoHarmWhenItWakes(t *testing.T) {
	f := newFleetOnHost(t, 85)
	elect := []string{"--drift-poll", "1s", "--leader-elect", "--leader-election-lease-duration=5s"}
	first := startOperator(t, f.providers, elect...)
	f.create("stop-a")
	f.converges(60 * time.Second)
	if err := first.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	f.create("stop-b")
	f.ask("stop-a", "while the leader is stopped")
	second := startOperator(t, f.providers, elect...)
	f.converges(90 * time.Second)
	// Requests that reach it while it is stopped are answered when it wakes: by then it leads no longer, whatever it
	// believes, and must not grant what its follower grants.
	answers := make(chan int, 4)
	for range cap(answers) {
		go func() { answers <- first.status("/v1/proxies") }()
	}
	waitForConnections(t, first.api, cap(answers))
	if err := first.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for range cap(answers) {
		if got := <-answers; got == http.StatusOK {
			t.Error("the former leader still answers as the leader")
		}
	}
	if err := first.wait(t, 30*time.Second); err == nil {
		t.Fatal("the former leader ended as if nothing had happened")
	}
	f.converges(30 * time.Second)
	f.remove("stop-a")
	f.remove("stop-b")
	f.converges(60 * time.Second)
	if n := len(f.processes()); n != 0 {
		t.Fatalf("%d processes are left", n)
	}
	if err := second.stop(t); err != nil {
		t.Fatal(err)
	}
}

// waitForConnections waits until the kernel has n connections to address in its queue.
func waitForConnections(t *testing.T, address string, n int) {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	local := fmt.Sprintf("0100007F:%04X", number)
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 2*time.Second, true, func(context.Context) (bool, error) {
		table, err := os.ReadFile("/proc/net/tcp")
		established := 0
		for _, line := range strings.Split(string(table), "\n") {
			if f := strings.Fields(line); len(f) > 3 && f[1] == local && f[3] == "01" {
				established++
			}
		}
		return established >= n, err
	})
	if err != nil {
		t.Fatalf("fewer than %d connections to %s: %v", n, address, err)
	}
}
