package gcpemulator

import (
	"maps"
	"time"

	"k8s.io/utils/clock"
)

// Options shape an Emulator. The zero value has one project, two regions with two zones each, room for thousands of
// instances, and everything happens at once.
type Options struct {
	// Clock drives everything; default is the real one.
	Clock clock.PassiveClock
	// Projects are the IDs of the projects that exist; default "project-a" and "project-b".
	Projects []string
	// Zones are the zones of every project and the region of each; default us-central1-{a,b} and europe-west1-{b,c}.
	Zones map[string]string
	// MachineTypes are the machine types of every zone, with their vCPUs.
	MachineTypes map[string]int
	// Images are the public images; default is one of Debian 12 and one of Ubuntu 24.04.
	Images []Image
	// Quotas limit each region of each project by metric: CPUS, INSTANCES, IN_USE_ADDRESSES, DISKS_TOTAL_GB. A metric left out has no
	// limit that matters.
	Quotas map[string]float64
	// QuotaLate makes a quota that is used up fail the operation, instead of refusing the request. Compute Engine does
	// either.
	QuotaLate bool
	// Delays are how long things take.
	Delays Delays
	// ListLag is how far lists of instances and disks are behind.
	ListLag time.Duration
	// RequestMemory is how long a requestId is remembered since it was first seen; default 60 min, negative for not at
	// all. The reference does not say; other Google APIs guarantee 60 min.
	RequestMemory time.Duration
	// OperationMemory is how long ended operations can be read; default 14 days.
	OperationMemory time.Duration
	// DensePages makes filters apply before results are cut into pages. By default they apply after it, so that a page
	// may be empty although there are more.
	DensePages bool
	// Addresses are the external addresses to give to instances, one each, in this order; used up, creations fail.
	// Default is a large pool that leads nowhere.
	Addresses []string
	// OnRunning is called when an instance begins to run, OnGone when that instance has stopped running for whatever
	// reason. Calls are made one at a time, in order, without a lock held, by whatever call let time pass; with the real
	// clock somebody has to call Settle now and then.
	OnRunning, OnGone func(VM)
}

// Delays are how long the steps of a life cycle take. Zero is at once.
type Delays struct {
	// Pending is how long an operation is PENDING before it is RUNNING.
	Pending time.Duration
	// Show passes between the acceptance of an insert and the moment when the instance can be read.
	Show time.Duration
	// Insert passes between the acceptance of an insert and the end of its operation; at least Show.
	Insert time.Duration
	// Staging passes between visibility and STAGING; Boot between visibility and RUNNING.
	Staging, Boot time.Duration
	// Delete passes between the acceptance of a deletion and absence, with the end of the operation.
	Delete time.Duration
	// Graceful is how long an instance with graceful shutdown is PENDING_STOP before that.
	Graceful time.Duration
	// Stop passes between STOPPING and TERMINATED where an instance stops without being deleted.
	Stop time.Duration
	// Global is how long operations on firewalls take; their effect is visible when they end.
	Global time.Duration
}

// Image is a public image.
type Image struct{ Project, Name, Family string }

// VM is what a callback is told about an instance.
type VM struct {
	Project, Zone, Name    string
	ID                     uint64
	InternalIP, ExternalIP string
	Labels, Metadata       map[string]string
}

// Pacific time is what the API gives timestamps in, whatever the zone of the resource.
const timeFormat = "2006-01-02T15:04:05.000-07:00"

var pacific = time.FixedZone("", -7*60*60)

func (o *Options) setDefaults() {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if len(o.Projects) == 0 {
		o.Projects = []string{"project-a", "project-b"}
	}
	if len(o.Zones) == 0 {
		o.Zones = map[string]string{
			"us-central1-a": "us-central1", "us-central1-b": "us-central1",
			"europe-west1-b": "europe-west1", "europe-west1-c": "europe-west1",
		}
	}
	if len(o.MachineTypes) == 0 {
		o.MachineTypes = map[string]int{"e2-micro": 2, "e2-small": 2, "e2-medium": 2, "n1-standard-1": 1, "n2-standard-4": 4}
	}
	if len(o.Images) == 0 {
		o.Images = []Image{
			{"debian-cloud", "debian-12-bookworm-v20240415", "debian-12"},
			{"ubuntu-os-cloud", "ubuntu-2404-noble-amd64-v20240423", "ubuntu-2404-lts-amd64"},
		}
	}
	limits := map[string]float64{metricCPUs: 72_000, metricInstances: 24_000, metricAddresses: 23_000, metricDisks: 1 << 20}
	maps.Copy(limits, o.Quotas)
	o.Quotas = limits
	if o.RequestMemory == 0 {
		o.RequestMemory = time.Hour
	}
	if o.OperationMemory == 0 {
		o.OperationMemory = 14 * 24 * time.Hour
	}
	o.Delays.Insert = max(o.Delays.Insert, o.Delays.Show)
	o.Delays.Boot = max(o.Delays.Boot, o.Delays.Staging)
}
