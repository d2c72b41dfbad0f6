package gcpemulator

import "maps"

// The metrics of a region's quotas that an instance and its disks count for.
const (
	metricCPUs      = "CPUS"
	metricInstances = "INSTANCES"
	metricAddresses = "IN_USE_ADDRESSES"
	metricDisks     = "DISKS_TOTAL_GB"
)

// usage is what the instances of a region take. One that is stopped takes no CPUs and no ephemeral address.
// https://cloud.google.com/compute/resource-usage
func (e *Emulator) usage(p *project, region string) map[string]float64 {
	used := map[string]float64{metricCPUs: 0, metricInstances: 0, metricAddresses: 0, metricDisks: 0}
	for _, in := range p.instances {
		if e.opts.Zones[in.zone] == region {
			add(used, in)
		}
	}
	for _, d := range p.disks {
		if e.opts.Zones[d.zone] == region {
			used[metricDisks] += float64(d.pb.GetSizeGb())
		}
	}
	return used
}

func add(used map[string]float64, in *instance) {
	used[metricInstances]++
	if in.status == statusTerminated {
		return
	}
	used[metricCPUs] += float64(in.cpus)
	if external(in.pb) {
		used[metricAddresses]++
	}
}

// limitsOf returns the quotas of a region.
func (e *Emulator) limitsOf(p *project, region string) map[string]float64 {
	limits := maps.Clone(e.opts.Quotas)
	maps.Copy(limits, p.quotas[region])
	return limits
}

// checkQuota refuses an instance for which there is no room.
func (c *call) checkQuota(in *instance) *apiError {
	region := c.opts.Zones[in.zone]
	used, limits := c.usage(c.project, region), c.limitsOf(c.project, region)
	add(used, in)
	for _, attached := range in.pb.GetDisks() {
		used[metricDisks] += float64(sizeOf(attached.GetInitializeParams()))
	}
	for _, metric := range []string{metricCPUs, metricInstances, metricAddresses, metricDisks} {
		if used[metric] > limits[metric] {
			return errQuota(metric, limits[metric], region)
		}
	}
	return nil
}

// SetQuota changes a limit of one region of a project.
func (e *Emulator) SetQuota(project, region, metric string, limit float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.must(project)
	if p.quotas[region] == nil {
		p.quotas[region] = map[string]float64{}
	}
	p.quotas[region][metric] = limit
}

// ExhaustQuota leaves no room for another instance in any region of a project.
func (e *Emulator) ExhaustQuota(project string) (restore func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.must(project)
	before := p.quotas
	p.quotas = map[string]map[string]float64{}
	for _, region := range e.opts.Zones {
		p.quotas[region] = map[string]float64{metricCPUs: 0, metricInstances: 0, metricAddresses: 0, metricDisks: 0}
	}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		p.quotas = before
	}
}

// must returns a project that a test has named. A name that is not there is a mistake of the test.
func (e *Emulator) must(project string) *project {
	p := e.projects[project]
	if p == nil {
		panic("gcpemulator: there is no project " + project)
	}
	return p
}
