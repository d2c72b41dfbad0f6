package gcpemulator

import (
	"strconv"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// Statuses of instances: https://cloud.google.com/compute/docs/instances/instance-lifecycle
const (
	statusProvisioning = "PROVISIONING"
	statusStaging      = "STAGING"
	statusRunning      = "RUNNING"
	statusPendingStop  = "PENDING_STOP"
	statusStopping     = "STOPPING"
	statusTerminated   = "TERMINATED"
)

// instance is one incarnation of a virtual machine under a name.
type instance struct {
	project   *project
	zone      string
	name      string
	pb        *computepb.Instance // as it is shown, but for status and addresses
	cpus      int
	inside    string // internal address
	outside   string // external address, "" for none wanted
	status    string
	turn      int // grows with every change of course, which makes steps of the old one void
	visible   bool
	visibleAt time.Time
	goneAt    time.Time
	inserting *operation
	deletion  *deletion
	accesses  []*computepb.AccessConfig // by hand
	handmade  bool                      // accesses are by hand
}

func (in *instance) key() string { return in.zone + "/" + in.name }

func (in *instance) path() string { return in.project.path("zones", in.zone, "instances", in.name) }

// show is the instance as the API shows it. An ephemeral external address exists only while the instance runs:
// https://cloud.google.com/compute/docs/ip-addresses#ephemeraladdress
func (in *instance) show() *computepb.Instance {
	pb := proto.CloneOf(in.pb)
	pb.Status = proto.String(in.status)
	for i, nic := range pb.GetNetworkInterfaces() {
		if i > 0 {
			break
		}
		if in.status != statusProvisioning {
			nic.NetworkIP = proto.String(in.inside)
		}
		for _, access := range nic.GetAccessConfigs() {
			if in.status == statusRunning && in.outside != "" {
				access.NatIP = proto.String(in.outside)
			}
		}
		if in.handmade {
			nic.AccessConfigs = in.accesses
		}
	}
	return pb
}

// appear makes the instance readable and lets it boot.
func (e *Emulator) appear(in *instance, at time.Time) {
	if in.project.instances[in.key()] != in {
		return
	}
	in.visible, in.visibleAt = true, at
	e.start(in, at)
}

// start brings the instance from PROVISIONING to RUNNING.
func (e *Emulator) start(in *instance, at time.Time) {
	in.turn++
	turn := in.turn
	in.status = statusProvisioning
	e.after(at, min(e.opts.Delays.Staging, e.boot), func(time.Time) {
		if in.turn == turn {
			in.status = statusStaging
		}
	})
	e.after(at, e.boot, func(at time.Time) {
		if in.turn == turn {
			e.run(in, at)
		}
	})
}

func (e *Emulator) run(in *instance, at time.Time) {
	in.turn++
	in.status = statusRunning
	in.pb.LastStartTimestamp = proto.String(stamp(at))
	if f := e.opts.OnRunning; f != nil {
		vm := in.vm()
		e.notify(func() { f(vm) })
	}
}

// become brings the instance into another status than RUNNING, at once.
func (e *Emulator) become(in *instance, status string) {
	in.turn++
	if f := e.opts.OnGone; f != nil && in.status == statusRunning && status != statusRunning {
		vm := in.vm()
		e.notify(func() { f(vm) })
	}
	in.status = status
}

// drop removes the instance, without its disks.
func (e *Emulator) drop(in *instance, at time.Time) {
	if in.project.instances[in.key()] != in {
		return
	}
	status := in.status
	e.become(in, "")
	in.status = status // what a lagging list still shows
	delete(in.project.instances, in.key())
	e.release(in.outside)
	if in.visible {
		in.goneAt = at
		in.project.gone = append(in.project.gone, in)
	}
	for _, d := range in.project.disks {
		if d.user == in {
			d.user = nil
		}
	}
}

func (in *instance) vm() VM {
	metadata := map[string]string{}
	for _, item := range in.pb.GetMetadata().GetItems() {
		metadata[item.GetKey()] = item.GetValue()
	}
	return VM{
		Project: in.project.id, Zone: in.zone, Name: in.name, ID: in.pb.GetId(),
		InternalIP: in.inside, ExternalIP: in.outside, Labels: in.pb.GetLabels(), Metadata: metadata,
	}
}

func numbered(id uint64, ref string) bool { return strconv.FormatUint(id, 10) == ref }
