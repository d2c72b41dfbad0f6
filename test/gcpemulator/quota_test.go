package gcpemulator_test

import (
	"testing"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func (r *rig) quotas() map[string][2]float64 {
	r.Helper()
	found, err := client(r, compute.NewRegionsRESTClient).Get(r.Context(), &computepb.GetRegionRequest{Project: project, Region: region})
	must(r.T, err)
	quotas := map[string][2]float64{}
	for _, q := range found.GetQuotas() {
		quotas[q.GetMetric()] = [2]float64{q.GetUsage(), q.GetLimit()}
	}
	return quotas
}

func TestQuotasFollowTheInstances(t *testing.T) {
	r := newRig(t, gcpemulator.Options{Quotas: map[string]float64{"CPUS": 6, "INSTANCES": 5, "IN_USE_ADDRESSES": 4, "DISKS_TOTAL_GB": 90}})
	r.create("a")
	r.create("b")
	if q := r.quotas(); q["CPUS"] != [2]float64{4, 6} || q["INSTANCES"] != [2]float64{2, 5} || q["IN_USE_ADDRESSES"] != [2]float64{2, 4} || q["DISKS_TOTAL_GB"] != [2]float64{40, 90} {
		t.Errorf("%v", q)
	}
	r.Place(gcpemulator.ID(project, "europe-west1-b", "elsewhere"), nil) // in another region
	r.create("c")
	err := second(r.insert(body("d"), ""))
	if api := asAPI(t, err); reason(err) != "403 quotaExceeded" || api.Message != "Quota 'CPUS' exceeded.  Limit: 6.0 in region us-central1." {
		t.Errorf("%v", err)
	}
	r.Stop(gcpemulator.ID(project, zone, "a"))
	if q := r.quotas(); q["CPUS"][0] != 4 || q["INSTANCES"][0] != 3 || q["IN_USE_ADDRESSES"][0] != 2 {
		t.Errorf("one is stopped: %v", q)
	}
	large := body("d")
	large.Disks[0].InitializeParams.DiskSizeGb = proto.Int64(31)
	if err := second(r.insert(large, "")); reason(err) != "403 quotaExceeded" {
		t.Errorf("%v", err)
	}
	r.create("d")
	must(t, second(r.remove("d")))
	r.SetQuota(project, region, "INSTANCES", 3)
	if err := second(r.insert(body("d"), "")); reason(err) != "403 quotaExceeded" {
		t.Errorf("%v", err)
	}
}

func TestAQuotaFailsTheOperation(t *testing.T) {
	r := newRig(t, gcpemulator.Options{QuotaLate: true})
	restore := r.ExhaustQuota(project)
	op := r.create("a")
	if errs := op.GetError().GetErrors(); op.GetHttpErrorStatusCode() != 403 || errs[0].GetCode() != "QUOTA_EXCEEDED" || errs[0].GetErrorDetails()[0].GetQuotaInfo() == nil {
		t.Errorf("%v", op)
	}
	r.expect("without quota", "a", "404 notFound")
	restore()
	r.create("a")
}

func TestAddressesComeFromTheirList(t *testing.T) {
	r := newRig(t, gcpemulator.Options{Addresses: []string{"127.0.82.1", "127.0.82.2"}})
	address := func(name string) string {
		in, err := r.get(name)
		must(t, err)
		return in.GetNetworkInterfaces()[0].GetAccessConfigs()[0].GetNatIP()
	}
	r.create("a")
	r.create("b")
	if address("a") != "127.0.82.1" || address("b") != "127.0.82.2" {
		t.Errorf("%s, %s", address("a"), address("b"))
	}
	if op := r.create("c"); op.GetError().GetErrors()[0].GetCode() != "IP_SPACE_EXHAUSTED" {
		t.Errorf("one too many: %v", op)
	}
	must(t, second(r.remove("a")))
	r.create("c")
	if address("c") != "127.0.82.1" {
		t.Errorf("c has %s", address("c"))
	}
}
