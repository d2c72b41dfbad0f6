package gcpemulator

import (
	"strconv"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

const defaultSizeGB = 10

// disk is a persistent disk. Here disks come into being with an instance only.
type disk struct {
	project    *project
	zone, name string
	pb         *computepb.Disk
	maker      *instance // what it came into being with
	user       *instance // what it is attached to
	auto       bool      // deleted with its user
	goneAt     time.Time
}

func (d *disk) key() string { return d.zone + "/" + d.name }

// diskName is what a new disk is called: a boot disk like its instance, unless the request says otherwise.
// https://cloud.google.com/compute/docs/reference/rest/v1/instances/insert (disks[].initializeParams.diskName)
func diskName(in *instance, i int, attached *computepb.AttachedDisk) string {
	if name := attached.GetInitializeParams().GetDiskName(); name != "" {
		return name
	}
	if i == 0 {
		return in.name
	}
	return in.name + "-" + strconv.Itoa(i)
}

// addDisks makes the disks that the instance asks for.
func (c *call) addDisks(in *instance) {
	for i, attached := range in.pb.GetDisks() {
		params := attached.GetInitializeParams()
		if params == nil {
			continue
		}
		d := &disk{
			project: c.project, zone: c.zone, name: diskName(in, i, attached),
			maker: in, user: in, auto: attached.GetAutoDelete(),
		}
		size := sizeOf(params)
		d.pb = &computepb.Disk{
			Id: proto.Uint64(c.number()), Kind: proto.String("compute#disk"), Name: &d.name,
			CreationTimestamp: proto.String(stamp(c.now)), SizeGb: &size, Labels: params.GetLabels(),
			LabelFingerprint: proto.String(fingerprint(params.GetLabels())), Status: proto.String("READY"),
			SelfLink: proto.String(c.project.link("zones", c.zone, "disks", d.name)),
			Zone:     proto.String(c.project.link("zones", c.zone)),
			Type:     proto.String(base + c.project.resolve(*orString(params.DiskType, "zones/"+c.zone+"/diskTypes/pd-standard"))),
		}
		if image := c.image(c.project.resolve(params.GetSourceImage())); image != nil {
			d.pb.SourceImage = proto.String(base + "projects/" + image.Project + "/global/images/" + image.Name)
		}
		c.project.disks[d.key()] = d
		attached.Source, attached.InitializeParams = d.pb.SelfLink, nil
		attached.Kind, attached.Index = proto.String("compute#attachedDisk"), proto.Int32(int32(i))
		attached.DiskSizeGb, attached.Type = &size, orString(attached.Type, "PERSISTENT")
		attached.Mode = orString(attached.Mode, "READ_WRITE")
		attached.DeviceName = orString(attached.DeviceName, "persistent-disk-"+strconv.Itoa(i))
	}
}

// sizeOf is the size of a new disk in GB: that of its image where the request says nothing.
func sizeOf(params *computepb.AttachedDiskInitializeParams) int64 {
	switch {
	case params == nil:
		return 0 // the disk is there already
	case params.GetDiskSizeGb() == 0:
		return defaultSizeGB
	}
	return params.GetDiskSizeGb()
}

// show is the disk as the API shows it.
func (d *disk) show() *computepb.Disk {
	pb := proto.CloneOf(d.pb)
	if d.user != nil {
		pb.Users = []string{base + d.user.path()}
	}
	return pb
}

// visible says whether the disk can be read, which it can be no sooner than the instance that it came with.
func (d *disk) visible() bool { return d.maker.visible }

// dropAll removes the instance and every disk that came with it.
func (e *Emulator) dropAll(in *instance, at time.Time) {
	for _, d := range in.project.disks {
		if d.maker == in || (d.user == in && d.auto) {
			e.dropDisk(d, at)
		}
	}
	e.drop(in, at)
}

// dropDisk removes the disk.
func (e *Emulator) dropDisk(d *disk, at time.Time) {
	if d.project.disks[d.key()] != d {
		return
	}
	delete(d.project.disks, d.key())
	if d.visible() {
		d.goneAt = at
		d.project.goneDisks = append(d.project.goneDisks, d)
	}
}

// image returns the image that a path names, by itself or by its family, nil for none.
func (e *Emulator) image(path string) *Image {
	for i, image := range e.opts.Images {
		prefix := "projects/" + image.Project + "/global/images/"
		if path == prefix+image.Name || path == prefix+"family/"+image.Family {
			return &e.opts.Images[i]
		}
	}
	return nil
}
