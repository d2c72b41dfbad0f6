package gcpemulator

import (
	"maps"
	"slices"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// getProject serves https://cloud.google.com/compute/docs/reference/rest/v1/projects/get
func getProject(c *call) (proto.Message, error) {
	p := c.project
	return &computepb.Project{
		Kind: proto.String("compute#project"), Id: &p.number, Name: &p.id, SelfLink: proto.String(base + "projects/" + p.id),
		DefaultServiceAccount: proto.String("emulator@" + p.id + ".iam.gserviceaccount.com"), XpnProjectStatus: proto.String("UNSPECIFIED_XPN_PROJECT_STATUS"),
	}, nil
}

func (c *call) zonePB(zone string) *computepb.Zone {
	return &computepb.Zone{
		Kind: proto.String("compute#zone"), Name: &zone, Status: proto.String("UP"),
		Region:   proto.String(c.project.link("regions", c.opts.Zones[zone])),
		SelfLink: proto.String(c.project.link("zones", zone)),
	}
}

// getZone serves https://cloud.google.com/compute/docs/reference/rest/v1/zones/get, where a zone is a resource that may be
// missing.
func getZone(c *call) (proto.Message, error) {
	if _, ok := c.opts.Zones[c.zone]; !ok {
		return nil, errNotFound(c.project.path("zones", c.zone))
	}
	return c.zonePB(c.zone), nil
}

// listZones serves https://cloud.google.com/compute/docs/reference/rest/v1/zones/list
func listZones(c *call) (proto.Message, error) {
	var items []item
	for zone := range c.opts.Zones {
		items = append(items, item{"", zone, "", func() proto.Message { return c.zonePB(zone) }})
	}
	p, err := c.cut(items)
	if err != nil {
		return nil, err
	}
	return &computepb.ZoneList{
		Kind: proto.String("compute#zoneList"), NextPageToken: p.next, Items: resources[*computepb.Zone](p.items),
	}, nil
}

// regionPB shows a region with its quotas, each with what is used of it.
func (c *call) regionPB(region string) *computepb.Region {
	r := &computepb.Region{
		Kind: proto.String("compute#region"), Name: &region, Status: proto.String("UP"),
		SelfLink: proto.String(c.project.link("regions", region)),
	}
	for _, zone := range slices.Sorted(maps.Keys(c.opts.Zones)) {
		if c.opts.Zones[zone] == region {
			r.Zones = append(r.Zones, c.project.link("zones", zone))
		}
	}
	used, limits := c.usage(c.project, region), c.limitsOf(c.project, region)
	for _, metric := range slices.Sorted(maps.Keys(limits)) {
		r.Quotas = append(r.Quotas, &computepb.Quota{
			Metric: &metric, Limit: proto.Float64(limits[metric]), Usage: proto.Float64(used[metric]),
		})
	}
	return r
}

// getRegion serves https://cloud.google.com/compute/docs/reference/rest/v1/regions/get
func getRegion(c *call) (proto.Message, error) {
	for _, region := range c.opts.Zones {
		if region == c.resource {
			return c.regionPB(region), nil
		}
	}
	return nil, errNotFound(c.project.path("regions", c.resource))
}

// listRegions serves https://cloud.google.com/compute/docs/reference/rest/v1/regions/list
func listRegions(c *call) (proto.Message, error) {
	regions := map[string]bool{}
	for _, region := range c.opts.Zones {
		regions[region] = true
	}
	var items []item
	for region := range regions {
		items = append(items, item{"", region, "", func() proto.Message { return c.regionPB(region) }})
	}
	p, err := c.cut(items)
	if err != nil {
		return nil, err
	}
	return &computepb.RegionList{
		Kind: proto.String("compute#regionList"), NextPageToken: p.next, Items: resources[*computepb.Region](p.items),
	}, nil
}

// getMachineType serves https://cloud.google.com/compute/docs/reference/rest/v1/machineTypes/get
func getMachineType(c *call) (proto.Message, error) {
	cpus, ok := c.opts.MachineTypes[c.resource]
	if !ok {
		return nil, errNotFound(c.project.path("zones", c.zone, "machineTypes", c.resource))
	}
	return &computepb.MachineType{
		Kind: proto.String("compute#machineType"), Name: &c.resource, Zone: &c.zone,
		GuestCpus: proto.Int32(int32(cpus)), MemoryMb: proto.Int32(int32(cpus) * 4096),
		SelfLink: proto.String(c.project.link("zones", c.zone, "machineTypes", c.resource)),
	}, nil
}

// getImage serves https://cloud.google.com/compute/docs/reference/rest/v1/images/get
func getImage(c *call) (proto.Message, error) { return c.imagePB("images/" + c.resource) }

// getFamily serves https://cloud.google.com/compute/docs/reference/rest/v1/images/getFromFamily
func getFamily(c *call) (proto.Message, error) { return c.imagePB("images/family/" + c.resource) }

func (c *call) imagePB(ref string) (proto.Message, error) {
	path := "projects/" + c.projectID + "/global/" + ref
	image := c.image(path)
	if image == nil {
		return nil, errNotFound(path)
	}
	return &computepb.Image{
		Kind: proto.String("compute#image"), Name: &image.Name, Family: &image.Family, Status: proto.String("READY"),
		SelfLink: proto.String(base + "projects/" + image.Project + "/global/images/" + image.Name), DiskSizeGb: proto.Int64(defaultSizeGB),
	}, nil
}
