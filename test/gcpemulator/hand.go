package gcpemulator

import (
	"maps"
	"regexp"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

var idForm = regexp.MustCompile(`^projects/([^/]+)/zones/([^/]+)/instances/([^/]+)$`)

// ID returns the path of an instance, by which everything here names it.
func ID(project, zone, name string) string {
	return "projects/" + project + "/zones/" + zone + "/instances/" + name
}

// Place puts an instance with these labels under id by hand, running since now, with a boot disk, and returns its number.
// It panics for an ID outside of the emulator or in use: that is a mistake of the test.
func (e *Emulator) Place(id string, labels map[string]string) (number uint64) {
	e.locked(func(now time.Time) {
		m := idForm.FindStringSubmatch(id)
		if m == nil || e.opts.Zones[m[2]] == "" || e.must(m[1]).instances[m[2]+"/"+m[3]] != nil {
			panic("gcpemulator: Place: " + id + " is outside of the emulator or in use")
		}
		c := &call{Emulator: e, projectID: m[1], project: e.must(m[1]), zone: m[2], now: now}
		in := &instance{project: c.project, zone: c.zone, name: m[3], cpus: 1, pb: &computepb.Instance{
			Name: &m[3], Labels: maps.Clone(labels), MachineType: proto.String("zones/" + c.zone + "/machineTypes/e2-micro"),
			Disks: []*computepb.AttachedDisk{{
				Boot: proto.Bool(true), AutoDelete: proto.Bool(true), InitializeParams: &computepb.AttachedDiskInitializeParams{},
			}},
			NetworkInterfaces: []*computepb.NetworkInterface{{AccessConfigs: []*computepb.AccessConfig{{}}}},
		}}
		c.furnish(in)
		c.giveAddresses(in)
		c.project.instances[in.key()] = in
		c.addDisks(in)
		in.visible, in.visibleAt = true, now
		e.run(in, now)
		number = in.pb.GetId()
	})
	return number
}

// change runs f on the instance of that ID, visible or not, and reports whether there is one.
func (e *Emulator) change(id string, f func(in *instance, now time.Time)) (found bool) {
	e.locked(func(now time.Time) {
		m := idForm.FindStringSubmatch(id)
		if m == nil || e.projects[m[1]] == nil {
			return
		}
		if in := e.projects[m[1]].instances[m[2]+"/"+m[3]]; in != nil {
			f(in, now)
			found = true
		}
	})
	return found
}

// SetStatus brings the instance into any status, known to the API or not, until something else changes it.
func (e *Emulator) SetStatus(id, status string) bool {
	return e.change(id, func(in *instance, now time.Time) {
		if status == statusRunning {
			e.run(in, now)
			return
		}
		e.become(in, status)
	})
}

// Stop shuts the instance off as instances.stop does: STOPPING, then TERMINATED.
func (e *Emulator) Stop(id string) bool {
	return e.change(id, func(in *instance, now time.Time) { e.shutOff(in, now) })
}

func (e *Emulator) shutOff(in *instance, now time.Time) {
	e.become(in, statusStopping)
	turn := in.turn
	e.after(now, e.opts.Delays.Stop, func(at time.Time) {
		if in.turn == turn {
			e.become(in, statusTerminated)
			in.pb.LastStopTimestamp = proto.String(stamp(at))
		}
	})
}

// Start makes a stopped instance boot again, under another external address.
func (e *Emulator) Start(id string) bool {
	return e.change(id, func(in *instance, now time.Time) {
		e.readdress(in)
		e.start(in, now)
	})
}

func (e *Emulator) readdress(in *instance) {
	if in.outside == "" {
		return
	}
	if next, ok := e.outside(); ok {
		e.release(in.outside)
		in.outside = next
	}
}

// Preempt takes a spot instance away: STOPPING, then TERMINATED, with an operation that nobody asked for.
// https://cloud.google.com/compute/docs/instances/create-use-spot#detect-preemption
func (e *Emulator) Preempt(id string) bool {
	return e.change(id, func(in *instance, now time.Time) {
		e.systemEvent(in, now, "compute.instances.preempted", "Instance was preempted.")
		e.shutOff(in, now)
	})
}

// Reboot is an error of the host: the instance restarts by itself, after a while, and keeps its number.
// https://cloud.google.com/compute/docs/instances/host-maintenance-overview#hosterror
func (e *Emulator) Reboot(id string) bool {
	return e.change(id, func(in *instance, now time.Time) {
		e.systemEvent(in, now, "compute.instances.hostError", "Instance terminated by Compute Engine.")
		e.become(in, statusTerminated)
		e.start(in, now)
		e.systemEvent(in, now, "compute.instances.automaticRestart", "Instance automatically restarted.")
	})
}

func (e *Emulator) systemEvent(in *instance, now time.Time, kind, message string) {
	op := e.newOperation(in.project, now, "systemevent", kind, "zones/"+in.zone, in.pb.GetSelfLink(), in.pb.GetId())
	op.pb.User, op.pb.StatusMessage = proto.String("system"), proto.String(message)
	op.end(now, nil)
}

// SetAccessConfigs replaces what the instance's interface says about external addresses; no argument leaves the list
// empty, one without natIP is an access config that has no address.
func (e *Emulator) SetAccessConfigs(id string, configs ...*computepb.AccessConfig) bool {
	return e.change(id, func(in *instance, _ time.Time) { in.handmade, in.accesses = true, configs })
}

// Vanish removes the instance with its disks, as a hand at the console does.
func (e *Emulator) Vanish(id string) bool {
	return e.change(id, func(in *instance, now time.Time) { e.dropAll(in, now) })
}

// LoseMain removes the instance and leaves its disks.
func (e *Emulator) LoseMain(id string) bool {
	return e.change(id, func(in *instance, now time.Time) { e.drop(in, now) })
}
