package gcpemulator

import (
	"net/netip"
	"slices"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// overlay sets in to what from sets. A list that is given replaces the one there was.
func overlay(to, from *computepb.Firewall) {
	if len(from.GetAllowed()) > 0 {
		to.Allowed = nil
	}
	if len(from.GetDenied()) > 0 {
		to.Denied = nil
	}
	for had, has := range map[*[]string][]string{
		&to.SourceRanges: from.SourceRanges, &to.SourceTags: from.SourceTags, &to.TargetTags: from.TargetTags,
		&to.DestinationRanges: from.DestinationRanges,
	} {
		if len(has) > 0 {
			*had = nil
		}
	}
	proto.Merge(to, from)
}

// fillFirewall fills in what the server decides about a rule.
func (c *call) fillFirewall(f *computepb.Firewall) {
	f.Network = proto.String(base + c.project.resolve(*orString(f.Network, "global/networks/default")))
	f.Direction = orString(f.Direction, "INGRESS")
	if f.Priority == nil {
		f.Priority = proto.Int32(1000)
	}
	if f.Disabled == nil {
		f.Disabled = proto.Bool(false)
	}
	if f.GetDirection() == "INGRESS" && len(f.GetSourceRanges())+len(f.GetSourceTags())+len(f.GetSourceServiceAccounts()) == 0 {
		f.SourceRanges = []string{"0.0.0.0/0"}
	}
}

func checkFirewall(f *computepb.Firewall) error {
	if !nameForm.MatchString(f.GetName()) {
		return errInvalid("resource.name", f.GetName(), "Must be a match of regex '"+namePattern+"'")
	}
	if (len(f.GetAllowed()) == 0) == (len(f.GetDenied()) == 0) {
		return errInvalid("resource.allowed", "", "Exactly one of allowed and denied must be specified.")
	}
	for _, r := range slices.Concat(f.GetSourceRanges(), f.GetDestinationRanges()) {
		if _, err := netip.ParsePrefix(r); err != nil {
			if _, err := netip.ParseAddr(r); err != nil {
				return errInvalid("resource.sourceRanges[0]", r, "Must be a valid IPV4 or IPV6 address range.")
			}
		}
	}
	return nil
}
