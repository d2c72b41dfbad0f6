package gcpemulator

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// furnish fills in what the server decides about an instance.
func (c *call) furnish(in *instance) {
	pb := in.pb
	pb.Id, pb.Kind = proto.Uint64(c.number()), proto.String("compute#instance")
	pb.CreationTimestamp = proto.String(stamp(c.now))
	pb.SelfLink = proto.String(base + in.path())
	pb.Zone = proto.String(c.project.link("zones", c.zone))
	pb.MachineType = proto.String(base + c.project.resolve(pb.GetMachineType()))
	pb.CpuPlatform = proto.String("Intel Broadwell")
	pb.Fingerprint = proto.String(fingerprint(pb.GetName()))
	pb.LabelFingerprint = proto.String(fingerprint(pb.GetLabels()))
	if pb.Metadata == nil {
		pb.Metadata = &computepb.Metadata{}
	}
	pb.Metadata.Kind = proto.String("compute#metadata")
	pb.Metadata.Fingerprint = proto.String(fingerprint(pb.GetMetadata()))
	if pb.Tags == nil {
		pb.Tags = &computepb.Tags{}
	}
	pb.Tags.Fingerprint = proto.String(fingerprint(pb.GetTags().GetItems()))
	if pb.Scheduling == nil {
		pb.Scheduling = &computepb.Scheduling{}
	}
	pb.Scheduling.ProvisioningModel = orString(pb.Scheduling.ProvisioningModel, "STANDARD")
	spot := pb.Scheduling.GetProvisioningModel() == "SPOT"
	pb.Scheduling.OnHostMaintenance = orString(pb.Scheduling.OnHostMaintenance, map[bool]string{true: "TERMINATE", false: "MIGRATE"}[spot])
	if pb.Scheduling.AutomaticRestart == nil {
		pb.Scheduling.AutomaticRestart = proto.Bool(!spot)
	}
	for i, nic := range pb.GetNetworkInterfaces() {
		nic.Name, nic.Kind = proto.String("nic"+string(rune('0'+i))), proto.String("compute#networkInterface")
		nic.Network = proto.String(base + c.project.resolve(*orString(nic.Network, "global/networks/default")))
		for _, access := range nic.GetAccessConfigs() {
			access.Kind = proto.String("compute#accessConfig")
			access.Name, access.Type = orString(access.Name, "External NAT"), orString(access.Type, "ONE_TO_ONE_NAT")
		}
	}
}

// orString is s, or a pointer to def where s is not set.
func orString(s *string, def string) *string {
	if s == nil || *s == "" {
		return &def
	}
	return s
}

// fingerprint changes whenever v does.
func fingerprint(v any) string {
	text := fmt.Append(nil, v)
	if message, ok := v.(proto.Message); ok {
		text, _ = proto.MarshalOptions{Deterministic: true}.Marshal(message) // what came as JSON can be encoded
	}
	sum := sha256.Sum256(text)
	return base64.URLEncoding.EncodeToString(sum[:8])
}

// giveAddresses gives the instance its addresses, false if the pool of external ones is empty.
func (c *call) giveAddresses(in *instance) (ok bool) {
	in.inside = c.Emulator.inside()
	if !external(in.pb) {
		return true
	}
	in.outside, ok = c.Emulator.outside()
	return ok
}

// external says whether the instance is to have an external address.
func external(pb *computepb.Instance) bool {
	return len(pb.GetNetworkInterfaces()) > 0 && len(pb.GetNetworkInterfaces()[0].GetAccessConfigs()) > 0
}
