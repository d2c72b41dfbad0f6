package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/option"
	"google.golang.org/protobuf/proto"
)

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// until waits for a line that begins so and returns the rest of it.
func (b *buffer) until(t *testing.T, begins string) string {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		b.mu.Lock()
		lines := strings.Split(b.b.String(), "\n")
		b.mu.Unlock()
		for _, line := range lines {
			if rest, ok := strings.CutPrefix(line, begins); ok {
				return rest
			}
		}
	}
	t.Fatalf("no line begins with %q", begins)
	return ""
}

func TestAVMIsAProcess(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out, log, seen := &buffer{}, &buffer{}, filepath.Join(t.TempDir(), "seen")
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{
			"-projects", "p", "-addresses", "127.0.82.1-127.0.82.3", "-boot", "10ms", "-delete", "10ms",
			"-serve", `echo "$VM_NAME $VM_ADDRESS $VM_LABEL_team $(cat "$VM_METADATA/user-data")" >` + seen + `; echo up; sleep 600 & wait`,
		}, out, log)
	}()
	url := out.until(t, "listening on ")
	instances, err := compute.NewInstancesRESTClient(t.Context(), option.WithEndpoint(url), option.WithoutAuthentication())
	if err != nil {
		t.Fatal(err)
	}
	defer instances.Close()
	_, err = instances.Insert(t.Context(), &computepb.InsertInstanceRequest{Project: "p", Zone: "us-central1-a", InstanceResource: &computepb.Instance{
		Name: proto.String("a"), MachineType: proto.String("zones/us-central1-a/machineTypes/e2-small"), Labels: map[string]string{"team": "x"},
		Disks: []*computepb.AttachedDisk{{Boot: proto.Bool(true), AutoDelete: proto.Bool(true), InitializeParams: &computepb.AttachedDiskInitializeParams{
			SourceImage: proto.String("projects/debian-cloud/global/images/family/debian-12"),
		}}},
		NetworkInterfaces: []*computepb.NetworkInterface{{AccessConfigs: []*computepb.AccessConfig{{}}}},
		Metadata:          &computepb.Metadata{Items: []*computepb.Items{{Key: proto.String("user-data"), Value: proto.String("#cloud-config")}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if rest := out.until(t, "running "); rest != "us-central1-a a 127.0.82.1" {
		t.Errorf("running %s", rest)
	}
	log.until(t, "up")
	if text, err := os.ReadFile(seen); err != nil || string(text) != "a 127.0.82.1 x #cloud-config\n" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := instances.Delete(t.Context(), &computepb.DeleteInstanceRequest{Project: "p", Zone: "us-central1-a", Instance: "a"}); err != nil {
		t.Fatal(err)
	}
	out.until(t, "gone ")
	log.until(t, "a: signal: terminated")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAddresses(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "10.0.0.1": {"10.0.0.1"}, "10.0.0.1,::1": {"10.0.0.1", "::1"}, "10.0.0.255-10.0.1.1": {"10.0.0.255", "10.0.1.0", "10.0.1.1"},
		"x": nil, "10.0.0.2-10.0.0.1": nil, "10.0.0.0-11.0.0.0": nil, "10.0.0.1-x": nil, "x-10.0.0.1": nil,
	} {
		got, err := parseAddresses(text)
		if !slices.Equal(got, want) || (err != nil) != (want == nil && text != "") {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"-no-such"}, {"-addresses", "x"}, {"-listen", "nowhere:-1"}} {
		if err := run(t.Context(), args, &buffer{}, &buffer{}); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
