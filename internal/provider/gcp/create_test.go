package gcp_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

const api = "https://www.googleapis.com/compute/v1/projects/project-a/"

// shape is what matters of a VM besides its marks.
type shape struct {
	network, subnetwork, tier, disk, model, action, account string
	tags, scopes                                            []string
	size                                                    int64
	external                                                bool
}

func (w *world) shape(ref provider.Ref) shape {
	w.t.Helper()
	vm := w.vm(ref)
	nic := vm.NetworkInterfaces[0]
	s := shape{network: strings.TrimPrefix(nic.Network, api), subnetwork: nic.Subnetwork, tags: vm.Tags.Items, external: len(nic.AccessConfigs) == 1}
	if s.external {
		s.tier = nic.AccessConfigs[0].NetworkTier
	}
	disk, err := w.sdk().Disks.Get("project-a", "us-central1-a", vm.Name).Context(w.t.Context()).Do()
	must(w.t, err)
	s.disk, s.size = strings.TrimPrefix(disk.Type, api+"zones/us-central1-a/diskTypes/"), disk.SizeGb
	s.model, s.action = vm.Scheduling.ProvisioningModel, vm.Scheduling.InstanceTerminationAction
	for _, a := range vm.ServiceAccounts {
		s.account, s.scopes = a.Email, a.Scopes
	}
	return s
}

func TestTheVMIsAsTheEntrySays(t *testing.T) {
	plain := shape{network: "global/networks/default", tier: "PREMIUM", tags: []string{"egress-proxy"}, disk: "pd-standard", size: 10, model: "STANDARD", external: true}
	for _, tc := range []struct {
		reason, extra string
		change        func(*shape)
	}{
		{"nothing said", "", func(*shape) {}},
		{"a network", "network: projects/project-a/global/networks/crawl\nsubnetworks: {us-central1: regions/us-central1/subnetworks/a, europe-west1: regions/europe-west1/subnetworks/b}\n", func(s *shape) {
			s.network, s.subnetwork = "global/networks/crawl", "regions/us-central1/subnetworks/a"
		}},
		{"a tag", "networkTag: exits\n", func(s *shape) { s.tags = []string{"exits"} }},
		{"the other tier", "networkTier: STANDARD\n", func(s *shape) { s.tier = "STANDARD" }},
		{"internal only", "addressType: internal\n", func(s *shape) { s.external, s.tier = false, "" }},
		{"a disk", "diskSizeGb: 25\ndiskType: pd-balanced\n", func(s *shape) { s.size, s.disk = 25, "pd-balanced" }},
		{"spot", "provisioning: spot\n", func(s *shape) { s.model, s.action = "SPOT", "STOP" }},
		{"an account", "serviceAccount: {email: default}\n", func(s *shape) {
			s.account, s.scopes = "default", []string{"https://www.googleapis.com/auth/cloud-platform"}
		}},
		{"an account with scopes", "serviceAccount: {email: a@b.iam.gserviceaccount.com, scopes: ['https://a/b', 'https://a/c']}\n", func(s *shape) {
			s.account, s.scopes = "a@b.iam.gserviceaccount.com", []string{"https://a/b", "https://a/c"}
		}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := newT(t, gcpemulator.Options{})
			w.extra = tc.extra
			ref, _ := w.create(w.provider())
			want := plain
			tc.change(&want)
			if got := w.shape(ref); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

// Labels take what fits into them; who the Proxy is, which may not, is read back to the letter.
func TestIdentityIsKeptToTheLetter(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	w.extra = "labels: {team: crawling}\n"
	p := w.provider()
	namespace, name := strings.Repeat("n", 63), strings.Repeat("exit.", 50)+"a.b"
	ref, req := w.create(p, func(r *provider.CreateRequest) {
		r.Namespace, r.ProxyName, r.Port, r.CloudInit = namespace, name, 8080, "#cloud-config\n"
	})
	labels := marked(req.UID, 1)
	labels[provider.LabelSpec], labels["proxy-operator-port"], labels["team"] = req.Spec, "8080", "crawling"
	labels["proxy-operator-address"] = "external"
	vm := w.vm(ref)
	disk, err := w.sdk().Disks.Get("project-a", "us-central1-a", vm.Name).Context(t.Context()).Do()
	must(w.t, err)
	for what, got := range map[string]map[string]string{"VM": vm.Labels, "disk": disk.Labels} {
		if !reflect.DeepEqual(got, labels) {
			t.Errorf("the labels of the %s are %v, want %v", what, got, labels)
		}
	}
	if want := "crawl.example.com/proxy " + namespace + "/" + name; vm.Description != want {
		t.Errorf("the description is %q, want %q", vm.Description, want)
	}
	if d := vm.Disks; len(d) != 1 || !d[0].Boot || !d[0].AutoDelete || vm.MachineType != api+"zones/us-central1-a/machineTypes/e2-micro" {
		t.Errorf("machine type %s, disks %+v", vm.MachineType, d)
	}
	if m := vm.Metadata.Items; len(m) != 1 || m[0].Key != "user-data" || *m[0].Value != req.CloudInit {
		t.Errorf("metadata %+v", m)
	}
	inst := w.get(p, ref)
	if want := owner.MarksFor(req, ref); inst.Marks != want || inst.Port != 8080 {
		t.Errorf("read back is %+v, port %d, want %+v", inst.Marks, inst.Port, want)
	}
	l, err := p.ListByTag(t.Context())
	if err != nil || len(l.Instances) != 1 || fmt.Sprintf("%+v", l.Instances[0]) != fmt.Sprintf("%+v", *inst) {
		t.Errorf("listed is %+v, %v, want %+v", l.Instances, err, inst)
	}
}

func TestWithoutCloudInitThereIsNoMetadata(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	ref, _ := w.create(w.provider())
	if vm := w.vm(ref); len(vm.Metadata.Items) > 0 || len(vm.ServiceAccounts) > 0 {
		t.Errorf("metadata %+v, accounts %+v", vm.Metadata.Items, vm.ServiceAccounts)
	}
}

// Compute Engine takes spot VMs only so.
func TestSpotVMsNeitherMigrateNorComeBack(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	w.extra = "provisioning: spot\n"
	ref, _ := w.create(w.provider())
	if s := w.vm(ref).Scheduling; s.OnHostMaintenance != "TERMINATE" || s.AutomaticRestart == nil || *s.AutomaticRestart {
		t.Errorf("%+v", s)
	}
}
