//go:build integration

package gcp_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/auth/credentials"
	"cloud.google.com/go/auth/httptransport"
	"github.com/go-logr/logr"
	"github.com/google/uuid"
	compute "google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"k8s.io/utils/clock"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/gcp"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// All that happens in the project ends within both, which is less than the ten minutes that go test allows by itself.
const (
	lifeTime    = 6 * time.Minute
	cleanupTime = 3 * time.Minute
)

// TestLifeCycleInARealProject takes one VM through its life, with application default credentials. The VM costs money for as
// long as that takes, and is removed whatever happens: everything carries an installation ID of this run alone.
//
//	EPX_GCP_PROJECT, EPX_GCP_ZONE   where; without them nothing is done
//	EPX_GCP_IMAGE                   Ubuntu 24.04 if unset; it need not run cloud-init here
//	EPX_GCP_MACHINE_TYPE            e2-micro if unset
//	EPX_GCP_NETWORK                 global/networks/default if unset
//	EPX_GCP_ENDPOINT                another base URL; one of plain HTTP, as of an emulator, gets no credentials
func TestLifeCycleInARealProject(t *testing.T) {
	r := newRun(t)
	req, ref := r.request(1)
	p := r.provider(r.owner)

	if status := p.Check(r.ctx); len(status) != 1 || !status[0].Ready || status[0].Target != r.project {
		t.Fatalf("check: %+v", status)
	}
	id, err := p.Plan(r.ctx, req)
	if err != nil || id != ref.ID {
		t.Fatalf("plan: %q, %v; want %q", id, err, ref.ID)
	}
	if inst, err := p.Get(r.ctx, ref); err != nil || inst.State != provider.StateProvisioning || inst.Identity != "" {
		t.Fatalf("get before the creation: %+v, %v", inst, err)
	}

	if err := p.Create(r.ctx, req, ref); err != nil {
		t.Fatal(err)
	}
	running := r.running(p, ref)
	want := r.owner.MarksFor(req, ref)
	if running.Marks != want || running.Port != req.Port || running.Identity == "" || running.ExitAddress != running.IP {
		t.Errorf("it runs as %+v, want marks %+v", running, want)
	}
	if age := time.Since(running.CreatedAt); age < -time.Minute || age > lifeTime {
		t.Errorf("it is %s old", age)
	}

	if err := p.Create(r.ctx, req, ref); err != nil {
		t.Errorf("the creation repeated: %v", err)
	}
	if n := r.calls.of("POST one instances"); n != 1 {
		t.Errorf("%d insertions", n)
	}
	r.await("the list showing it, and nothing else", func() bool {
		l, err := p.ListByTag(r.ctx)
		if err != nil || len(l.Unread) > 0 {
			t.Logf("list: unread %v, %v", l.Unread, err)
		}
		return err == nil && len(l.Instances) == 1 && l.Instances[0].Identity == running.Identity && l.Instances[0].State == provider.StateRunning
	})
	r.foreign(ref)
	r.otherAttempt(p, ref, running.Identity)

	ref.Identity = running.Identity
	if err := p.Delete(r.ctx, ref); err != nil {
		t.Fatal(err)
	}
	if err := p.Delete(r.ctx, ref); err != nil {
		t.Errorf("the deletion repeated: %v", err)
	}
	if n := r.calls.of("DELETE one instances"); n != 1 {
		t.Errorf("%d deletions", n)
	}
	r.await("the instance being gone", func() bool {
		inst, err := p.Get(r.ctx, ref)
		if err == nil {
			r.note(inst)
			return false
		}
		if !errors.Is(err, provider.ErrNotFound) {
			t.Logf("get: %v", err)
		}
		return errors.Is(err, provider.ErrNotFound)
	})
	r.proved("it is gone")
	r.await("end of what is left", func() bool { // lists lag
		left := r.left(r.ctx)
		r.last = fmt.Sprint(left)
		return len(left) == 0
	})
	r.proved("nothing of it is left")
	t.Logf("calls to the API:\n%s", r.calls)
}

// run is one run of the test in one project.
type run struct {
	t                                   *testing.T
	ctx                                 context.Context
	began                               time.Time
	project, zone, image, shape, config string
	owner                               provider.Owner
	calls                               *callCount
	api                                 *compute.Service
	last                                string
}

func newRun(t *testing.T) *run {
	r := &run{
		t: t, began: time.Now(), project: os.Getenv("EPX_GCP_PROJECT"), zone: os.Getenv("EPX_GCP_ZONE"), calls: &callCount{},
		image: or("EPX_GCP_IMAGE", "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64"),
		shape: or("EPX_GCP_MACHINE_TYPE", "e2-micro"),
		owner: provider.Owner{Installation: "it-" + strings.ToLower(rand.Text()[:16]), Cluster: "integration"},
	}
	if r.project == "" || r.zone == "" {
		t.Skip("EPX_GCP_PROJECT and EPX_GCP_ZONE are not set")
	}
	if end, ok := t.Deadline(); ok && time.Until(end) < lifeTime+cleanupTime+30*time.Second {
		t.Fatal("there is no time to remove what is made: run it with -timeout 15m")
	}
	// Nothing listens on the VM, and no rule lets anybody in.
	r.config = fmt.Sprintf("project: %s\nfirewall: {existingSourceRanges: [192.0.2.0/24]}\nnetwork: %s\n", r.project, or("EPX_GCP_NETWORK", "global/networks/default"))
	endpoint := os.Getenv("EPX_GCP_ENDPOINT")
	anonymous := strings.HasPrefix(endpoint, "http:")
	var opts []option.ClientOption
	if endpoint != "" {
		r.config += fmt.Sprintf("endpoint: %s\nanonymous: %t\n", endpoint, anonymous)
		opts = append(opts, option.WithEndpoint(endpoint))
	}
	var err error
	if r.api, err = compute.NewService(t.Context(), append(opts, option.WithHTTPClient(ownClient(t, anonymous)))...); err != nil {
		t.Fatal(err)
	}
	t.Logf("installation %s: gcloud compute instances list --project=%s --filter=labels.%s=%s", r.owner.Installation, r.project, provider.LabelInstallation, r.owner.Installation)
	t.Cleanup(r.cleanUp)
	ctx, cancel := context.WithTimeout(t.Context(), lifeTime)
	t.Cleanup(cancel)
	r.ctx = logf.IntoContext(ctx, logr.New(&callSink{count: r.calls}))
	return r
}

// ownClient returns one that has nothing to do with the provider's.
func ownClient(t *testing.T, anonymous bool) *http.Client {
	t.Helper()
	base := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(base.CloseIdleConnections)
	if anonymous {
		return &http.Client{Transport: base}
	}
	creds, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{compute.ComputeScope}, Client: &http.Client{Transport: base}})
	if err != nil {
		t.Fatalf("application default credentials: %v", err)
	}
	client, err := httptransport.NewClient(&httptransport.Options{Credentials: creds, BaseRoundTripper: base})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func or(variable, otherwise string) string {
	if v := os.Getenv(variable); v != "" {
		return v
	}
	return otherwise
}

func (r *run) provider(o provider.Owner) *gcp.Provider {
	r.t.Helper()
	block, err := registry.ParseBlock(gcp.Type, []byte(r.config))
	if err != nil {
		r.t.Fatal(err)
	}
	p, err := gcp.New(r.ctx, provider.Options{
		Name: entry, Block: block, Owner: o,
		Window: provider.Window{Clock: clock.RealClock{}, CallTimeout: 30 * time.Second, Skew: 5 * time.Second},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = p.(io.Closer).Close() })
	return p.(*gcp.Provider)
}

func (r *run) request(attempt int64) (provider.CreateRequest, provider.Ref) {
	uid := uuid.NewString()
	req := provider.CreateRequest{
		Name: provider.NameFromUID(uid), UID: uid, Namespace: "integration", ProxyName: "life-cycle", Port: 3128,
		Placement: provider.Placement{Zone: r.zone, MachineType: r.shape, Image: r.image},
		CloudInit: "#cloud-config\n{}\n", Spec: "v1-0123456789abcdef",
	}
	return req, provider.Ref{
		ID:  "projects/" + r.project + "/zones/" + r.zone + "/instances/" + req.Name,
		UID: uid, Attempt: attempt, RequestedAt: time.Now(),
	}
}

// running waits until the instance runs and has an address.
func (r *run) running(p *gcp.Provider, ref provider.Ref) (inst provider.Instance) {
	r.t.Helper()
	r.await("the instance running", func() bool {
		got, err := p.Get(r.ctx, ref)
		if err != nil {
			r.t.Logf("get: %v", err)
			return false
		}
		r.note(got)
		if got.State == provider.StateFailed {
			r.t.Fatalf("the creation failed: %v", got.Err)
		}
		inst = *got
		return got.State == provider.StateRunning && got.IP != ""
	})
	r.proved("it runs at " + inst.IP)
	return inst
}

// foreign: another installation neither sees the instance nor touches it.
func (r *run) foreign(ref provider.Ref) {
	r.t.Helper()
	stranger := r.provider(provider.Owner{Installation: r.owner.Installation + "-b", Cluster: r.owner.Cluster})
	if l, err := stranger.ListByTag(r.ctx); err != nil || len(l.Instances) > 0 {
		r.t.Errorf("another installation lists %+v, %v", l.Instances, err)
	}
	if inst, err := stranger.Get(r.ctx, ref); !errors.Is(err, provider.ErrConflict) {
		r.t.Errorf("another installation gets %+v, %v", inst, err)
	}
	if err := stranger.Delete(r.ctx, ref); !errors.Is(err, provider.ErrConflict) {
		r.t.Errorf("another installation deletes: %v", err)
	}
}

// otherAttempt: a record of another attempt sees which one stands there, and does not delete it.
func (r *run) otherAttempt(p *gcp.Provider, ref provider.Ref, identity string) {
	r.t.Helper()
	other := ref
	other.Attempt++
	if inst, err := p.Get(r.ctx, other); err != nil || inst.Marks.Attempt != ref.Attempt || inst.Identity != identity {
		r.t.Errorf("get of another attempt: %+v, %v", inst, err)
	}
	if err := p.Delete(r.ctx, other); err != nil {
		r.t.Errorf("deletion of another attempt: %v", err)
	}
	if n := r.calls.of("DELETE one instances"); n != 0 {
		r.t.Error("the attempt of a stale record was deleted")
	}
}

// await polls until ok, within the time of the whole life.
func (r *run) await(what string, ok func() bool) {
	r.t.Helper()
	tick := time.NewTicker(3 * time.Second)
	defer tick.Stop()
	for !ok() {
		select {
		case <-r.ctx.Done():
			r.t.Fatalf("no %s within %s; last seen: %s", what, lifeTime, r.last)
		case <-tick.C:
		}
	}
}

// note logs what has changed.
func (r *run) note(inst *provider.Instance) {
	if now := fmt.Sprintf("%s %s", inst.State, inst.Message); now != r.last {
		r.last = now
		r.t.Logf("%5.1f s: %s", time.Since(r.began).Seconds(), now)
	}
}

func (r *run) proved(what string) {
	r.t.Helper()
	r.t.Logf("%5.1f s: %s", time.Since(r.began).Seconds(), what)
}

// left lists what carries the labels of this run, without the provider.
func (r *run) left(ctx context.Context) (left []string) {
	r.t.Helper()
	vms, disks, err := r.labelled(ctx)
	if err != nil {
		return []string{"it cannot be told: " + err.Error()}
	}
	for _, vm := range vms {
		left = append(left, "VM "+vm.Name+" "+vm.Status)
	}
	for _, d := range disks {
		left = append(left, "disk "+d.Name)
	}
	return left
}

func (r *run) labelled(ctx context.Context) (vms []*compute.Instance, disks []*compute.Disk, err error) {
	filter := fmt.Sprintf("labels.%s=%q", provider.LabelInstallation, r.owner.Installation)
	err = r.api.Instances.List(r.project, r.zone).Filter(filter).Pages(ctx, func(page *compute.InstanceList) error {
		vms = append(vms, page.Items...)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	err = r.api.Disks.List(r.project, r.zone).Filter(filter).Pages(ctx, func(page *compute.DiskList) error {
		disks = append(disks, page.Items...)
		return nil
	})
	return vms, disks, err
}

// cleanUp removes whatever is there still, and complains when that is not possible.
func (r *run) cleanUp() {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTime)
	defer cancel()
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	// A creation whose answer got lost may show late.
	for quiet := 0; quiet < 2; {
		vms, disks, err := r.labelled(ctx)
		if err != nil {
			r.t.Logf("cleaning up: %v", err)
		}
		if quiet++; err != nil || len(vms)+len(disks) > 0 {
			quiet = 0
		}
		for _, vm := range vms {
			if vm.Status == "STOPPING" || vm.Status == "DEPROVISIONING" {
				continue
			}
			_, err := r.api.Instances.Delete(r.project, r.zone, strconv.FormatUint(vm.Id, 10)).Context(ctx).Do()
			r.removed("VM "+vm.Name, err)
		}
		for _, d := range disks {
			if len(d.Users) == 0 {
				_, err := r.api.Disks.Delete(r.project, r.zone, strconv.FormatUint(d.Id, 10)).Context(ctx).Do()
				r.removed("disk "+d.Name, err)
			}
		}
		if quiet >= 2 {
			return
		}
		select {
		case <-ctx.Done():
			r.t.Errorf("STILL THERE, remove it by hand: %v", r.left(context.Background()))
			return
		case <-tick.C:
		}
	}
}

func (r *run) removed(what string, err error) {
	answer, answered := errors.AsType[*googleapi.Error](err)
	if answered && (answer.Code == http.StatusNotFound || answer.Code == http.StatusConflict) {
		return // it is gone, or on its way
	}
	r.t.Logf("cleaning up %s: %v", what, err)
}

// callCount counts requests to the API by kind.
type callCount struct {
	mu sync.Mutex
	n  map[string]int
}

var resource = regexp.MustCompile(`/(aggregated/)?(instances|disks|operations|regions|zones|firewalls)(/[^/]+)?$`)
