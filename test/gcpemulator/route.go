package gcpemulator

import (
	"io"
	"net/http"
	"net/url"
	"path"
	"time"

	"google.golang.org/protobuf/proto"
)

// handler is one method of the API. It runs with the lock held, at the time of arrival.
type handler func(c *call) (proto.Message, error)

// call is one request on its way.
type call struct {
	*Emulator
	// name is the method's name in the reference, like "instances.insert".
	name string
	// projectID is what the URL says, project nil where there is none of that ID.
	projectID      string
	project        *project
	zone, resource string
	query          url.Values
	body           []byte
	received, now  time.Time
	fault          Fault
}

const (
	inProject = "/compute/v1/projects/{project}"
	inZone    = inProject + "/zones/{zone}"
	inGlobal  = inProject + "/global"
)

// routes are all methods there are, by the names they have in the reference.
func (e *Emulator) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range []struct {
		name, pattern string
		handle        handler
	}{
		{"instances.insert", "POST " + inZone + "/instances", insertInstance},
		{"instances.get", "GET " + inZone + "/instances/{name}", getInstance},
		{"instances.delete", "DELETE " + inZone + "/instances/{name}", deleteInstance},
		{"instances.list", "GET " + inZone + "/instances", listInstances},
		{"instances.aggregatedList", "GET " + inProject + "/aggregated/instances", aggregateInstances},
		{"disks.get", "GET " + inZone + "/disks/{name}", getDisk},
		{"disks.delete", "DELETE " + inZone + "/disks/{name}", deleteDisk},
		{"disks.list", "GET " + inZone + "/disks", listDisks},
		{"disks.aggregatedList", "GET " + inProject + "/aggregated/disks", aggregateDisks},
		{"zoneOperations.get", "GET " + inZone + "/operations/{name}", getOperation},
		{"zoneOperations.list", "GET " + inZone + "/operations", listOperations},
		{"zoneOperations.wait", "POST " + inZone + "/operations/{name}/wait", getOperation},
		{"globalOperations.get", "GET " + inGlobal + "/operations/{name}", getOperation},
		{"globalOperations.list", "GET " + inGlobal + "/operations", listOperations},
		{"globalOperations.wait", "POST " + inGlobal + "/operations/{name}/wait", getOperation},
		{"firewalls.get", "GET " + inGlobal + "/firewalls/{name}", getFirewall},
		{"firewalls.list", "GET " + inGlobal + "/firewalls", listFirewalls},
		{"firewalls.insert", "POST " + inGlobal + "/firewalls", insertFirewall},
		{"firewalls.patch", "PATCH " + inGlobal + "/firewalls/{name}", changeFirewall},
		{"firewalls.update", "PUT " + inGlobal + "/firewalls/{name}", changeFirewall},
		{"firewalls.delete", "DELETE " + inGlobal + "/firewalls/{name}", deleteFirewall},
		{"projects.get", "GET " + inProject, getProject},
		{"regions.get", "GET " + inProject + "/regions/{name}", getRegion},
		{"regions.list", "GET " + inProject + "/regions", listRegions},
		{"zones.get", "GET " + inZone, getZone},
		{"zones.list", "GET " + inProject + "/zones", listZones},
		{"machineTypes.get", "GET " + inZone + "/machineTypes/{name}", getMachineType},
		{"images.get", "GET " + inGlobal + "/images/{name}", getImage},
		{"images.getFromFamily", "GET " + inGlobal + "/images/family/{name}", getFamily},
	} {
		mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) { e.serve(w, req, r.name, r.handle) })
	}
	return mux
}

// ServeHTTP answers one request.
func (e *Emulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, pattern := e.mux.Handler(r); pattern == "" || path.Clean(r.URL.Path) != r.URL.Path {
		// What is no URL of the API at all is answered by the front end, in HTML:
		// https://github.com/pulumi/pulumi-google-native/issues/565
		writeHTML(w, http.StatusNotFound, "Error 404 (Not Found)!!1")
		return
	}
	e.mux.ServeHTTP(w, r)
}

// receive makes a call of a request.
func (e *Emulator) receive(w http.ResponseWriter, r *http.Request, name string) (*call, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<20))
	if err != nil {
		return nil, err
	}
	id := r.PathValue("project")
	return &call{
		Emulator: e, name: name, projectID: id, project: e.projects[id], zone: r.PathValue("zone"),
		resource: r.PathValue("name"), query: r.URL.Query(), body: body,
	}, nil
}
