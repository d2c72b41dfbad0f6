package kvm_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// What can never be satisfied is refused before anything is asked of a host, naming field and value.
func TestRequestsThatAreRefused(t *testing.T) {
	w := newT(t)
	p := w.provider()
	for _, tc := range []struct {
		reason string
		change func(*provider.CreateRequest)
		says   []string
		mark   string
	}{
		{"another's name", func(r *provider.CreateRequest) { r.Name = "proxy-somebody" }, []string{"name", `"proxy-somebody"`, r0UID}, ""},
		{"a UID with a dot", func(r *provider.CreateRequest) { r.UID = "a.b"; r.Name = provider.NameFromUID("a.b") }, []string{"UID", `"a.b"`}, ""},
		{"a UID with a slash", func(r *provider.CreateRequest) { r.UID = "../b"; r.Name = provider.NameFromUID("../b") }, []string{"UID", `"../b"`}, ""},
		{"a long UID", func(r *provider.CreateRequest) {
			r.UID = strings.Repeat("a", 65)
			r.Name = provider.NameFromUID(r.UID)
		}, []string{"UID", "aaa"}, ""},
		{"no UID", func(r *provider.CreateRequest) { r.UID = ""; r.Name = provider.NameFromUID("") }, []string{"UID", `""`}, ""},
		{"large marks", func(r *provider.CreateRequest) { r.Spec = strings.Repeat("x", 4096) }, []string{"marks", "4096"}, ""},
		{"a control character", func(r *provider.CreateRequest) { r.Namespace = "a\x00" }, []string{"marks", `a\x00`}, ""},
		{"not UTF-8", func(r *provider.CreateRequest) { r.ProxyName = "a\xff" }, []string{"marks", `a\xff`}, ""},
		{"no character of XML's", func(r *provider.CreateRequest) { r.Spec = "a\uFFFF" }, []string{"marks"}, ""},
		{"port 0", func(r *provider.CreateRequest) { r.Port = 0 }, []string{"port 0"}, ""},
		{"port 65536", func(r *provider.CreateRequest) { r.Port = 65536 }, []string{"port 65536"}, ""},
		{"an unknown host", func(r *provider.CreateRequest) { r.Placement.Zone = "hv-c" }, []string{"placement.zone", `"hv-c"`, "hv-a, hv-b"}, ""},
		{"a host of another region", func(r *provider.CreateRequest) { r.Placement.Region = "mars" }, []string{"placement.zone", `"hv-a"`, "placement.region", `"mars"`}, ""},
		{"a region without hosts", func(r *provider.CreateRequest) { r.Placement.Zone, r.Placement.Region = "", "mars" }, []string{"placement.region", `"mars"`}, ""},
		{"an unknown machine type", func(r *provider.CreateRequest) { r.Placement.MachineType = "huge" }, []string{"placement.machineType", `"huge"`, "small"}, ""},
		{"no machine type", func(r *provider.CreateRequest) { r.Placement.MachineType = "" }, []string{"placement.machineType", `""`}, ""},
		{"an unknown image", func(r *provider.CreateRequest) { r.Placement.Image = "alpine" }, []string{"placement.image", `"alpine"`, "debian"}, ""},
		{"much cloud-init", func(r *provider.CreateRequest) { r.CloudInit = strings.Repeat("sentinel", 1<<18) + "s" }, []string{"cloudInit", "2097153 bytes"}, ""},
		{"cloud-init that is not UTF-8", func(r *provider.CreateRequest) { r.CloudInit = "sentinel\xff" }, []string{"cloudInit"}, ""},
		{"an open proxy", func(r *provider.CreateRequest) { r.Credentials = nil }, []string{"spec.auth", "clients"}, provider.ReasonOpenProxyRefused},
		{"a password that nobody uses", func(r *provider.CreateRequest) { r.CloudInit = "#cloud-config\n" }, []string{"spec.auth", "cloudInit", "${PROXY_PASSWORD}"}, provider.ReasonOpenProxyRefused},
		{"an empty password", func(r *provider.CreateRequest) { r.Credentials = &provider.Credentials{Username: "u"} }, []string{"spec.auth"}, provider.ReasonOpenProxyRefused},
	} {
		req := w.request()
		req.UID, req.Name = r0UID, provider.NameFromUID(r0UID)
		tc.change(&req)
		called := w.since(func() {
			_, err := p.Plan(t.Context(), req)
			expect(t, "Plan of "+tc.reason, err, provider.ErrPermanent, tc.mark, tc.says...)
			if err != nil && (len(err.Error()) > 1200 || strings.Contains(err.Error(), "sentinel")) {
				t.Errorf("%s: %.200s", tc.reason, err)
			}
			ref := w.ref(w.request(), 1)
			ref.UID, ref.ID = req.UID, "hosts/"+hostA+"/domains/"+req.Name
			err = p.Create(t.Context(), req, ref)
			expect(t, "Create of "+tc.reason, err, provider.ErrPermanent, tc.mark, tc.says...)
		})
		if len(called) > 0 {
			t.Errorf("%s: the host was asked: %v", tc.reason, called)
		}
	}
}

const r0UID = "00000000-0000-4000-8000-0000000000ff"

// What is just within the limits is taken.
func TestRequestsThatAreTaken(t *testing.T) {
	w := newT(t)
	w.extra = "clients: [192.0.2.0/24]\n"
	p := w.provider()
	for reason, change := range map[string]func(*provider.CreateRequest){
		"large cloud-init": func(r *provider.CreateRequest) { r.CloudInit = strings.Repeat("x", 2<<20) },
		"no cloud-init":    func(r *provider.CreateRequest) { r.CloudInit = "" },
		"large marks": func(r *provider.CreateRequest) {
			r.Spec = strings.Repeat("x", 4096-len(r.Namespace)-len(r.ProxyName))
		},
		"hostile marks":  func(r *provider.CreateRequest) { r.ProxyName = "<a b=\"c\">&\t\r\n'ä😀\u0085" },
		"a long UID":     func(r *provider.CreateRequest) { r.UID = strings.Repeat("a", 64); r.Name = provider.NameFromUID(r.UID) },
		"the last port":  func(r *provider.CreateRequest) { r.Port = 65535 },
		"no credentials": func(r *provider.CreateRequest) { r.Credentials = nil },
	} {
		req := w.request()
		change(&req)
		id, err := p.Plan(t.Context(), req)
		ref := provider.Ref{ID: id, UID: req.UID, Attempt: 1, RequestedAt: w.clock.Now()}
		if err == nil {
			err = p.Create(t.Context(), req, ref)
		}
		if err != nil {
			t.Errorf("%s: %v", reason, err)
			continue
		}
		w.daemons[hostA].Boot()
		inst, err := p.Get(t.Context(), ref)
		if err != nil || inst.Marks != owner.MarksFor(req, ref) || inst.Port != req.Port {
			t.Errorf("%s: %+v, %v, want the marks %+v", reason, inst, err, owner.MarksFor(req, ref))
		}
	}
}

// regions are hosts of two regions.
func (w *world) regions() string {
	return strings.Replace(w.block(), "{name: hv-a,", "{name: hv-a, region: eu,", 1)
}

// The host is the one that the zone names, or one of the region.
func TestTheHostThatIsChosen(t *testing.T) {
	w := newT(t)
	p, err := w.open(entry, owner, w.regions())
	must(w.t, err)
	t.Cleanup(func() { _ = p.Close() })
	hosts := map[string]map[string]int{}
	for range 40 {
		for reason, at := range map[string]provider.Placement{
			"zone": {Zone: hostB}, "both": {Zone: hostA, Region: "eu"}, "region": {Region: "eu"}, "neither": {},
		} {
			req := w.request()
			req.Placement.Zone, req.Placement.Region = at.Zone, at.Region
			id, err := p.Plan(t.Context(), req)
			must(w.t, err)
			again, err := p.Plan(t.Context(), req)
			must(w.t, err)
			if again != id {
				t.Errorf("%s, then %s", id, again)
			}
			if hosts[reason] == nil {
				hosts[reason] = map[string]int{}
			}
			hosts[reason][p.Target(provider.Ref{ID: id})]++
		}
	}
	if fmt.Sprint(hosts["zone"], hosts["both"], hosts["region"]) != "map[hv-b:40] map[hv-a:40] map[hv-a:40]" || len(hosts["neither"]) != 2 {
		t.Errorf("hosts %v", hosts)
	}
}

// UIDs are spread evenly, and few are moved when a host is added.
func TestHostsAreChosenEvenly(t *testing.T) {
	const uids = 1000
	chosen := func(hosts int) (at []string, count map[string]int) {
		var all []string
		daemons := map[string]*libvirttest.Daemon{}
		w := newT(t)
		for i := range hosts {
			name := fmt.Sprintf("hv-%d", i+1)
			all = append(all, "{name: "+name+", socket: /run/"+name+"}")
			daemons[name] = libvirttest.NewDaemon()
			for _, v := range w.daemons[hostA].Volumes() {
				daemons[name].AddVolume(v, 1<<20)
			}
			w.wires[name] = &libvirttest.Wire{}
		}
		w.daemons = daemons
		_, rest, _ := strings.Cut(w.block(), "images:")
		p, err := w.open(entry, owner, "hosts: ["+strings.Join(all, ", ")+"]\nimages:"+rest)
		must(w.t, err)
		t.Cleanup(func() { _ = p.Close() })
		count = map[string]int{}
		for range uids {
			req := w.request()
			req.Placement.Zone = ""
			id, err := p.Plan(t.Context(), req)
			must(w.t, err)
			at = append(at, p.Target(provider.Ref{ID: id}))
			count[at[len(at)-1]]++
		}
		return at, count
	}
	before, count := chosen(5)
	for host, n := range count {
		if n < 150 || n > 250 {
			t.Errorf("%s has %d of %d", host, n, uids)
		}
	}
	after, _ := chosen(6)
	moved := 0
	for i := range before {
		if before[i] != after[i] {
			moved++
			if after[i] != "hv-6" {
				t.Errorf("UID %d moves from %s to %s, which was there before", i, before[i], after[i])
			}
		}
	}
	if moved < 100 || moved > 250 {
		t.Errorf("%d of %d move when a sixth host is added", moved, uids)
	}
}

func TestRoomOnAHost(t *testing.T) {
	const mib, gib = 1 << 10, 1 << 30 // memory is counted in KiB
	for _, tc := range []struct {
		reason  string
		prepare func(*libvirttest.Daemon)
		class   error // nil where there is room
		says    string
	}{
		{"just enough", func(d *libvirttest.Daemon) { d.SetRoom(512*mib, 4*gib) }, nil, ""},
		{"little memory", func(d *libvirttest.Daemon) { d.SetRoom(512*mib-1, 4*gib) }, provider.ErrQuotaExceeded, "memory"},
		{"little disk", func(d *libvirttest.Daemon) { d.SetRoom(512*mib, 4*gib-1) }, provider.ErrQuotaExceeded, "pool default"},
		{"memory in caches", func(d *libvirttest.Daemon) {
			d.SetStats(stat("total", 1<<20), stat("free", 100*mib), stat("buffers", 12*mib), stat("cached", 400*mib))
		}, nil, ""},
		{"little memory in caches, too", func(d *libvirttest.Daemon) {
			d.SetStats(stat("free", 100*mib), stat("buffers", 12*mib), stat("cached", 399*mib))
		}, provider.ErrQuotaExceeded, "memory"},
		{"no statistics", func(d *libvirttest.Daemon) { d.SetStats() }, provider.ErrTransient, "statistics"},
		{"a pool that is off", func(d *libvirttest.Daemon) { d.SetPool("", libvirt.StoragePoolInactive) }, provider.ErrTransient, "pool default is not running"},
		{"a pool that is degraded", func(d *libvirttest.Daemon) { d.SetPool("", libvirt.StoragePoolDegraded) }, provider.ErrTransient, "pool default is not running"},
	} {
		w := newT(t)
		tc.prepare(w.daemons[hostA])
		p := w.provider()
		_, err := p.Plan(t.Context(), w.request())
		req := w.request()
		e := p.Create(t.Context(), req, w.ref(req, 1))
		if tc.class == nil {
			if err != nil || e != nil {
				t.Errorf("%s: %v, %v", tc.reason, err, e)
			}
			continue
		}
		expect(t, "Plan: "+tc.reason, err, tc.class, "", "host hv-a", tc.says)
		expect(t, "Create: "+tc.reason, e, tc.class, "", tc.says)
		if left := changes(w.wires[hostA].Seen()); len(left) > 0 {
			t.Errorf("%s: %v", tc.reason, left)
		}
	}
}

func stat(field string, kib uint64) libvirt.NodeGetMemoryStats {
	return libvirt.NodeGetMemoryStats{Field: field, Value: kib}
}

// A replacement comes when the old instance has gone, so what that holds is free for it.
func TestRoomForAReplacement(t *testing.T) {
	w := newT(t)
	p := w.provider()
	req, ref := w.made(p)
	d, name := w.daemon(ref.ID)
	d.Fill(w.volume(ref, "disk.qcow2"), 3<<30)
	plan := func(req provider.CreateRequest) error {
		_, err := p.Plan(t.Context(), req)
		return err
	}
	d.SetRoom(0, 1<<40)
	must(w.t, plan(req))
	expect(t, "another Proxy without memory", plan(w.request()), provider.ErrQuotaExceeded, "", "memory")
	d.SetRoom(16<<20, 1<<30)
	must(w.t, plan(req))
	d.SetRoom(16<<20, 1<<30-1)
	expect(t, "the same with less than the disk holds", plan(req), provider.ErrQuotaExceeded, "", "pool")
	expect(t, "another Proxy without disk", plan(w.request()), provider.ErrQuotaExceeded, "", "pool")
	// One that is off holds no memory, one that is paused does.
	d.SetRoom(0, 1<<40)
	d.Set(name, libvirt.DomainPaused, int32(libvirt.DomainPausedUser))
	must(w.t, plan(req))
	d.Set(name, libvirt.DomainShutoff, int32(libvirt.DomainShutoffShutdown))
	expect(t, "one that is off", plan(req), provider.ErrQuotaExceeded, "", "memory")
	// What a stranger holds is not ours to count.
	d.Set(name, libvirt.DomainRunning, 1)
	d.SetMetadata(name, "")
	expect(t, "a stranger's", plan(req), provider.ErrQuotaExceeded, "", "memory")
	// A disk that somebody has removed holds nothing, and is no failure.
	other := w.request()
	d.SetRoom(16<<20, 1<<40)
	ref = w.ref(other, 1)
	must(w.t, p.Create(t.Context(), other, ref))
	d.RemoveVolume(w.volume(ref, "disk.qcow2"))
	d.SetRoom(0, 1<<40)
	must(w.t, plan(other))
}

// While an image comes, Plan says how far it is, however many ask; there is one download, and the old instance serves on.
func TestPlanWaitsForTheImage(t *testing.T) {
	w := newWorld(providertest.Go(t))
	var requests atomic.Int32
	release := make(chan struct{})
	w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		rw.Header().Set("Content-Length", fmt.Sprint(len(image)))
		_, _ = rw.Write(image[:len(image)/2])
		_ = http.NewResponseController(rw).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
		_, _ = rw.Write(image[len(image)/2:])
	})
	p := w.provider()
	req := w.request()
	_, err := p.Plan(t.Context(), req)
	expect(t, "the first", err, provider.ErrTransient, "", `image "debian"`, "0 %", "host hv-a")
	if provider.RetryAfter(err) != kvm.PollPeriod {
		t.Errorf("retry after %v, want %v", provider.RetryAfter(err), kvm.PollPeriod)
	}
	for range 5000 {
		if _, err = p.Plan(t.Context(), w.request()); strings.Contains(err.Error(), "50 %") {
			break
		}
		must(w.t, pause(t.Context()))
	}
	expect(t, "another", err, provider.ErrTransient, "", "50 %")
	// A creation for which the image has gone meanwhile waits alike, and makes nothing.
	expect(t, "Create", p.Create(t.Context(), req, w.ref(req, 1)), provider.ErrTransient, "", "50 %")
	w.expect(t, "after that", p, w.old(w.ref(req, 1)), "not_found")
	close(release)
	for range 5000 {
		if _, err = p.Plan(t.Context(), req); err == nil {
			break
		}
		must(w.t, pause(t.Context()))
	}
	must(w.t, err)
	if n := requests.Load(); n != 1 {
		t.Errorf("%d downloads", n)
	}
	must(w.t, p.Create(t.Context(), req, w.ref(req, 1)))
}

// A replacement that wants an image which is not there yet leaves the old instance as it is.
func TestTheOldInstanceServesDuringADownload(t *testing.T) {
	w := newT(t)
	stop := make(chan struct{})
	w.server.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	})
	defer close(stop)
	p, err := w.open(entry, owner, strings.Replace(w.block(), "images:\n", "images:\n  new: {url: '"+w.server.URL+"/new', sha256: "+sha+", format: raw}\n", 1))
	must(w.t, err)
	t.Cleanup(func() { _ = p.Close() })
	req, ref := w.made(p)
	req.Placement.Image = "new"
	for range 3 {
		_, err = p.Plan(t.Context(), req)
		expect(t, "the replacement", err, provider.ErrTransient, "", `image "new"`)
	}
	if left := changes(w.wires[hostA].Seen()); len(left) != 5 {
		t.Errorf("changes %v, want those of the creation alone", left)
	}
	w.expect(t, "the old one", p, ref, "Running")
}

// Why a download fails is known from Plan, and when it is tried again.
func TestDownloadsThatFail(t *testing.T) {
	w := newWorld(providertest.Go(t))
	w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", fmt.Sprint(len(image)))
		_, _ = io.WriteString(rw, strings.Repeat("x", len(image)))
	})
	p := w.provider()
	var err error
	for range 5000 {
		if _, err = p.Plan(t.Context(), w.request()); provider.Class(err) == provider.ErrPermanent {
			break
		}
		must(w.t, pause(t.Context()))
	}
	expect(t, "Plan", err, provider.ErrPermanent, "", `image "debian"`, "host hv-a")
	if provider.RetryAfter(err) <= 0 {
		t.Errorf("retry after %v", provider.RetryAfter(err))
	}
	if left := w.daemons[hostA].Volumes(); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}
