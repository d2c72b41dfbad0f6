package gcpemulator_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/protobuf/proto"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

const (
	project = "project-a"
	zone    = "us-central1-a"
	region  = "us-central1"
	image   = "projects/debian-cloud/global/images/family/debian-12"
)

// rig is an emulator on a fake clock with the real SDK's clients on it, over HTTP.
type rig struct {
	*testing.T
	*gcpemulator.Server
	clock      *clocktesting.FakePassiveClock
	stepping   sync.Mutex
	instances  *compute.InstancesClient
	operations *compute.ZoneOperationsClient
}

func newRig(t *testing.T, opts gcpemulator.Options) *rig {
	t.Helper()
	r := &rig{T: t, clock: clocktesting.NewFakePassiveClock(time.Date(2024, 5, 1, 12, 0, 0, 123_000_000, time.UTC))}
	if opts.Clock == nil {
		opts.Clock = r.clock
	}
	server, err := gcpemulator.New(opts).Listen(t.Context(), "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	r.Server = server
	r.instances = client(r, compute.NewInstancesRESTClient)
	r.operations = client(r, compute.NewZoneOperationsRESTClient)
	return r
}

func (r *rig) options() []option.ClientOption {
	return []option.ClientOption{option.WithEndpoint(r.URL), option.WithoutAuthentication()}
}

func (r *rig) step(d time.Duration) {
	r.stepping.Lock()
	defer r.stepping.Unlock()
	r.clock.SetTime(r.clock.Now().Add(d))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// body is a request that is accepted.
func body(name string) *computepb.Instance {
	return &computepb.Instance{
		Name:        &name,
		MachineType: proto.String("zones/" + zone + "/machineTypes/e2-small"),
		Labels:      map[string]string{"managed": "true", "owner": name},
		Disks: []*computepb.AttachedDisk{{
			Boot: proto.Bool(true), AutoDelete: proto.Bool(true),
			InitializeParams: &computepb.AttachedDiskInitializeParams{
				SourceImage: proto.String(image), DiskSizeGb: proto.Int64(20), Labels: map[string]string{"managed": "true"},
			},
		}},
		NetworkInterfaces: []*computepb.NetworkInterface{{
			Network: proto.String("global/networks/default"), AccessConfigs: []*computepb.AccessConfig{{}},
		}},
		Metadata: &computepb.Metadata{Items: []*computepb.Items{{Key: proto.String("user-data"), Value: proto.String("#cloud-config")}}},
		Tags:     &computepb.Tags{Items: []string{"proxy"}},
	}
}

func (r *rig) insert(in *computepb.Instance, requestID string) (*computepb.Operation, error) {
	req := &computepb.InsertInstanceRequest{Project: project, Zone: zone, InstanceResource: in}
	if requestID != "" {
		req.RequestId = &requestID
	}
	op, err := r.instances.Insert(r.Context(), req)
	if err != nil {
		return nil, err
	}
	return op.Proto(), nil
}

func (r *rig) create(name string) *computepb.Operation {
	r.Helper()
	op, err := r.insert(body(name), "")
	must(r.T, err)
	return op
}

func (r *rig) get(name string) (*computepb.Instance, error) {
	return r.instances.Get(r.Context(), &computepb.GetInstanceRequest{Project: project, Zone: zone, Instance: name})
}

// status is what Get says, as text: a status, or code and reason of the error.
func (r *rig) status(name string) string {
	in, err := r.get(name)
	if err != nil {
		return reason(err)
	}
	return in.GetStatus()
}

func (r *rig) expect(when, name, want string) {
	r.Helper()
	if got := r.status(name); got != want {
		r.Errorf("%s: %s is %s, want %s", when, name, got, want)
	}
}

func (r *rig) remove(name string) (*computepb.Operation, error) {
	op, err := r.instances.Delete(r.Context(), &computepb.DeleteInstanceRequest{Project: project, Zone: zone, Instance: name})
	if err != nil {
		return nil, err
	}
	return op.Proto(), nil
}

func (r *rig) operation(name string) *computepb.Operation {
	r.Helper()
	op, err := r.operations.Get(r.Context(), &computepb.GetZoneOperationRequest{Project: project, Zone: zone, Operation: name})
	must(r.T, err)
	return op
}

// reason is code and reason of an error of the API.
func reason(err error) string {
	var api *googleapi.Error
	switch {
	case err == nil:
		return "ok"
	case !errors.As(err, &api):
		return "no answer"
	case len(api.Errors) == 0:
		return itoa(api.Code)
	}
	return itoa(api.Code) + " " + api.Errors[0].Reason
}

// all drains an iterator.
func all[T any](next func() (T, error)) (items []T, err error) {
	for {
		item, err := next()
		if errors.Is(err, iterator.Done) {
			return items, nil
		}
		if err != nil {
			return items, err
		}
		items = append(items, item)
	}
}
