package gcpemulator_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/googleapi"
	"google.golang.org/protobuf/proto"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func asAPI(t *testing.T, err error) *googleapi.Error {
	t.Helper()
	var api *googleapi.Error
	if !errors.As(err, &api) {
		t.Fatalf("%v is no answer of the API", err)
	}
	return api
}

func TestWhatIsNotThere(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	for _, tc := range []struct{ project, zone, name, want, message string }{
		{project, zone, "a", "404 notFound", "The resource 'projects/project-a/zones/us-central1-a/instances/a' was not found"},
		{project, "nowhere", "a", "400 invalid", "Invalid value for field 'zone': 'nowhere'. Unknown zone."},
		{"nothing", zone, "a", "404 notFound", "The resource 'projects/nothing' was not found"},
		{"nothing", "nowhere", "a", "404 notFound", "The resource 'projects/nothing' was not found"},
	} {
		_, err := r.instances.Get(t.Context(), &computepb.GetInstanceRequest{Project: tc.project, Zone: tc.zone, Instance: tc.name})
		if reason(err) != tc.want || asAPI(t, err).Message != tc.message {
			t.Errorf("%s/%s/%s: %v", tc.project, tc.zone, tc.name, err)
		}
		_, err = r.instances.Delete(t.Context(), &computepb.DeleteInstanceRequest{Project: tc.project, Zone: tc.zone, Instance: tc.name})
		if reason(err) != tc.want {
			t.Errorf("delete %s/%s/%s: %v", tc.project, tc.zone, tc.name, err)
		}
	}
	if !strings.Contains(asAPI(t, second(r.get("a"))).Body, `"domain":"global"`) {
		t.Error("there is no domain")
	}
}

func second[T any](_ T, err error) error { return err }

// The SDK wraps each error in an apierror.APIError, which knows no reason: it reads google.rpc details, and gives up on
// bodies with an "errors" list. Reasons are in googleapi.Error.
func TestReasonsAreInTheOldErrorOnly(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	err := second(r.get("a"))
	var wrapped interface {
		HTTPCode() int
		Reason() string
	}
	if !errors.As(err, &wrapped) || wrapped.HTTPCode() != http.StatusNotFound || wrapped.Reason() != "" {
		t.Errorf("%#v", wrapped)
	}
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct{ reason, want string }{
		{"authError", "401 authError"},
		{"forbidden", "403 forbidden"},
		{"accessNotConfigured", "403 accessNotConfigured"},
		{"quotaExceeded", "403 quotaExceeded"},
		{"rateLimitExceeded", "403 rateLimitExceeded"},
	} {
		r := newRig(t, gcpemulator.Options{})
		restore := r.Deny(tc.reason)
		if got := reason(second(r.insert(body("a"), ""))); got != tc.want {
			t.Errorf("insert: %s, want %s", got, tc.want)
		}
		if got := r.status("a"); got != tc.want {
			t.Errorf("get: %s, want %s", got, tc.want)
		}
		restore()
		r.expect("restored", "a", "404 notFound")
	}
}

func TestHeadersAndBodiesReachTheCaller(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	for _, after := range []string{"0", "3600", "soon", "Wed, 01 May 2024 12:00:00 GMT"} {
		r.InjectOnce(gcpemulator.On("instances.get"), gcpemulator.Fault{Status: 429, RetryAfter: after})
		api := asAPI(t, second(r.get("a")))
		if api.Header.Get("Retry-After") != after || api.Errors[0].Reason != "rateLimitExceeded" {
			t.Errorf("%#v", api)
		}
	}
	r.InjectOnce(gcpemulator.On("instances.get"), gcpemulator.Fault{HTML: true, RetryAfter: "7"})
	if api := asAPI(t, second(r.get("a"))); api.Code != 502 || len(api.Errors) != 0 || !strings.Contains(api.Body, "<html") || api.Header.Get("Retry-After") != "7" {
		t.Errorf("%#v", api)
	}
	r.InjectOnce(gcpemulator.On("instances.get"), gcpemulator.Fault{Status: 200, Body: "{"})
	if err := second(r.get("a")); err == nil {
		t.Error("a broken body was accepted")
	}
	r.InjectOnce(gcpemulator.On("instances.get"), gcpemulator.Fault{
		Status: 403, Reason: "forbidden", Message: "no", Domain: "usageLimits",
		Details: []any{map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "IAM_PERMISSION_DENIED"}},
	})
	if api := asAPI(t, second(r.get("a"))); api.Message != "no" || len(api.Details) != 1 {
		t.Errorf("%#v", api)
	}
}

// The SDK by itself repeats reads, but no changes, that are answered 503 or 504.
func TestTheSDKRepeatsReads(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	r.create("a")
	r.InjectNext(2, gcpemulator.On("instances.*"), gcpemulator.Fault{Status: 503})
	r.expect("repeated", "a", "RUNNING")
	if n := r.Calls("instances.get"); n != 3 {
		t.Errorf("%d calls", n)
	}
	r.InjectOnce(gcpemulator.On("instances.*"), gcpemulator.Fault{Status: 503})
	if _, err := r.remove("a"); reason(err) != "503 backendError" {
		t.Error(err)
	}
}

func TestInvalidRequests(t *testing.T) {
	big := func(n int) *computepb.Metadata {
		m := &computepb.Metadata{}
		for i := range n {
			m.Items = append(m.Items, &computepb.Items{Key: proto.String("k" + itoa(i)), Value: proto.String(strings.Repeat("x", 256<<10))})
		}
		return m
	}
	for name, tc := range map[string]struct {
		change func(in *computepb.Instance)
		want   string
		says   string
	}{
		"upper case":   {func(in *computepb.Instance) { in.Name = proto.String("A") }, "400 invalid", "resource.name"},
		"long name":    {func(in *computepb.Instance) { in.Name = proto.String(strings.Repeat("a", 64)) }, "400 invalid", "resource.name"},
		"label key":    {func(in *computepb.Instance) { in.Labels["a.b/c"] = "" }, "400 invalid", "resource.labels"},
		"label value":  {func(in *computepb.Instance) { in.Labels["a"] = "B" }, "400 invalid", "resource.labels"},
		"long label":   {func(in *computepb.Instance) { in.Labels["a"] = strings.Repeat("b", 64) }, "400 invalid", "resource.labels"},
		"machine type": {func(in *computepb.Instance) { in.MachineType = proto.String("zones/" + zone + "/machineTypes/none") }, "400 invalid", "Machine type with name 'none' does not exist"},
		"machine's zone": {func(in *computepb.Instance) {
			in.MachineType = proto.String("zones/us-central1-b/machineTypes/e2-small")
		}, "400 invalid", "does not exist in zone"},
		"no machine type": {func(in *computepb.Instance) { in.MachineType = nil }, "400 invalid", "resource.machineType"},
		"image": {func(in *computepb.Instance) {
			in.Disks[0].InitializeParams.SourceImage = proto.String("projects/x/global/images/none")
		}, "404 notFound", "projects/x/global/images/none"},
		"no disk":        {func(in *computepb.Instance) { in.Disks = nil }, "400 invalid", "resource.disks"},
		"no interface":   {func(in *computepb.Instance) { in.NetworkInterfaces = nil }, "400 invalid", "resource.networkInterfaces"},
		"tag":            {func(in *computepb.Instance) { in.Tags.Items = []string{"Proxy"} }, "400 invalid", "resource.tags"},
		"metadata value": {func(in *computepb.Instance) { in.Metadata = big(1); *in.Metadata.Items[0].Value += "x" }, "400 invalid", "262145"},
		"metadata":       {func(in *computepb.Instance) { in.Metadata = big(2) }, "400 invalid", "maximum total size"},
		"metadata twice": {func(in *computepb.Instance) { in.Metadata.Items = append(in.Metadata.Items, in.Metadata.Items[0]) }, "400 invalid", "Duplicate"},
		"metadata key":   {func(in *computepb.Instance) { in.Metadata.Items[0].Key = proto.String("a b") }, "400 invalid", "key"},
		"largest":        {func(in *computepb.Instance) { in.Metadata = big(1) }, "ok", ""},
		"full URLs": {func(in *computepb.Instance) {
			in.MachineType = proto.String("https://www.googleapis.com/compute/v1/projects/" + project + "/" + in.GetMachineType())
			in.Disks[0].InitializeParams.SourceImage = proto.String("https://www.googleapis.com/compute/v1/" + image)
		}, "ok", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, gcpemulator.Options{})
			in := body("a")
			tc.change(in)
			_, err := r.insert(in, "")
			if reason(err) != tc.want || (err != nil && !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("%v", err)
			}
			if left := r.Leftovers(); err != nil && len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// What the SDK cannot send.
func TestRawRequests(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	for _, tc := range []struct{ method, path, body, kind, says string }{
		{"POST", "/projects/project-a/zones/us-central1-a/instances", `{"name":"a","colour":"red"}`, "application/json", `Unknown name \"colour\": Cannot find field.`},
		{"POST", "/projects/project-a/zones/us-central1-a/instances", `{`, "application/json", "Invalid JSON payload"},
		{"GET", "/projects/project-a/elsewhere", "", "text/html", "Error 404 (Not Found)"},
		{"GET", "/projects/project-a//zones", "", "text/html", "Error 404 (Not Found)"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tc.method, r.URL+"/compute/v1"+tc.path, strings.NewReader(tc.body))
		must(t, err)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		text, err := io.ReadAll(resp.Body)
		must(t, errors.Join(err, resp.Body.Close()))
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), tc.kind) || !strings.Contains(string(text), tc.says) {
			t.Errorf("%s %s: %s", tc.method, tc.path, text)
		}
	}
}
