package gcpemulator_test

import (
	"testing"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func TestPlaces(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	ctx := t.Context()
	projects, zones := client(r, compute.NewProjectsRESTClient), client(r, compute.NewZonesRESTClient)
	regions, machines := client(r, compute.NewRegionsRESTClient), client(r, compute.NewMachineTypesRESTClient)
	images := client(r, compute.NewImagesRESTClient)

	p, err := projects.Get(ctx, &computepb.GetProjectRequest{Project: project})
	if err != nil || p.GetName() != project || p.GetId() == 0 {
		t.Errorf("%v, %v", p, err)
	}
	z, err := zones.Get(ctx, &computepb.GetZoneRequest{Project: project, Zone: zone})
	if err != nil || z.GetStatus() != "UP" || z.GetRegion() != "https://www.googleapis.com/compute/v1/projects/project-a/regions/us-central1" {
		t.Errorf("%v, %v", z, err)
	}
	list, err := all(zones.List(ctx, &computepb.ListZonesRequest{Project: project, MaxResults: proto.Uint32(1)}).Next)
	if err != nil || len(list) != 4 {
		t.Errorf("%v, %v", list, err)
	}
	areas, err := all(regions.List(ctx, &computepb.ListRegionsRequest{Project: project}).Next)
	if err != nil || len(areas) != 2 || len(areas[0].GetZones()) != 2 {
		t.Errorf("%v, %v", areas, err)
	}
	m, err := machines.Get(ctx, &computepb.GetMachineTypeRequest{Project: project, Zone: zone, MachineType: "e2-small"})
	if err != nil || m.GetGuestCpus() != 2 {
		t.Errorf("%v, %v", m, err)
	}
	i, err := images.GetFromFamily(ctx, &computepb.GetFromFamilyImageRequest{Project: "debian-cloud", Family: "debian-12"})
	if err != nil || i.GetStatus() != "READY" {
		t.Errorf("%v, %v", i, err)
	}
	if _, err := images.Get(ctx, &computepb.GetImageRequest{Project: "debian-cloud", Image: i.GetName()}); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"project": second(projects.Get(ctx, &computepb.GetProjectRequest{Project: "x"})),
		"zone":    second(zones.Get(ctx, &computepb.GetZoneRequest{Project: project, Zone: "x"})),
		"region":  second(regions.Get(ctx, &computepb.GetRegionRequest{Project: project, Region: "x"})),
		"machine": second(machines.Get(ctx, &computepb.GetMachineTypeRequest{Project: project, Zone: zone, MachineType: "x"})),
		"image":   second(images.Get(ctx, &computepb.GetImageRequest{Project: "debian-cloud", Image: "x"})),
	} {
		if reason(err) != "404 notFound" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestDisksAreListed(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	disks := client(r, compute.NewDisksRESTClient)
	r.create("a")
	r.Place(gcpemulator.ID(project, "europe-west1-b", "b"), nil)
	in := body("kept")
	in.Disks[0].AutoDelete = proto.Bool(false)
	must(t, second(r.insert(in, "")))
	must(t, second(r.remove("kept")))
	list, err := all(disks.List(t.Context(), &computepb.ListDisksRequest{Project: project, Zone: zone}).Next)
	if err != nil || len(list) != 2 || len(list[0].GetUsers()) != 1 || len(list[1].GetUsers()) != 0 || list[0].GetSizeGb() != 20 {
		t.Errorf("%v, %v", list, err)
	}
	found := 0
	scopes, err := all(disks.AggregatedList(t.Context(), &computepb.AggregatedListDisksRequest{
		Project: project, Filter: proto.String("labels.managed=true"),
	}).Next)
	must(t, err)
	for _, s := range scopes {
		found += len(s.Value.GetDisks())
	}
	if found != 2 {
		t.Errorf("%v", scopes)
	}
}
