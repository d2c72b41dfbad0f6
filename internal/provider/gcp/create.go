package gcp

import (
	"context"
	"errors"
	"fmt"

	compute "google.golang.org/api/compute/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Create sends one insert and returns once it is accepted. What stands there of the same attempt is left as it is.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	ctx = p.calling(ctx, "create", ref.ID)
	err := p.create(ctx, req, ref)
	outcome(ctx, err)
	return err
}

func (p *Provider) create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	const op = "create"
	if err := p.check(op, ref.ID, req); err != nil {
		return err
	}
	at := p.planned(req)
	if at.String() != ref.ID || req.UID != ref.UID || ref.Attempt < 1 {
		return provider.Wrap(provider.ErrPermanent, op, p.name, ref.ID, fmt.Errorf("the plan leads to %s", at))
	}
	if err := p.window.CheckSend(p.name, ref); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.window.Deadline(ref).Sub(p.window.Clock.Now()))
	defer cancel()
	if there, err := p.standing(ctx, ref, at); there || err != nil {
		return err
	}
	// Before the VM, which would be there without being reached otherwise.
	if err := p.admit(ctx, ref, req.Port); err != nil {
		return p.fail(op, ref.ID, err)
	}
	if err := p.window.CheckSend(p.name, ref); err != nil {
		return err
	}
	err := p.api.insert(ctx, at.zone, provider.CreateToken(req.UID, ref.Attempt), p.machine(at, req, ref))
	switch {
	case err == nil:
		return nil
	case conflicts(err):
		return p.outrun(ctx, ref, at)
	case invalid(err):
		// So is a token that has been used for a request with other parameters: then that one was accepted.
		if c, readErr := p.creation(ctx, at, ref); readErr == nil && c != nil {
			return nil
		}
	}
	return p.fail(op, ref.ID, err)
}

// outrun judges that the name is taken although nothing stood there: by this attempt's other call, another attempt, or a stranger.
func (p *Provider) outrun(ctx context.Context, ref provider.Ref, at place) error {
	const op = "create"
	if there, err := p.standing(ctx, ref, at); there || err != nil {
		return err
	}
	disk, err := p.api.disk(ctx, at)
	if err == nil {
		for _, user := range disk.Users {
			if user := lastOf(user); user != at.name {
				return provider.Wrap(provider.ErrConflict, op, p.name, ref.ID, fmt.Errorf("the disk of that name is in use by VM %s", user))
			}
		}
	}
	return provider.Wrap(provider.ErrTransient, op, p.name, ref.ID, errors.New("the name is taken by something that does not show"))
}

// standing reports whether the attempt itself stands under its ID; anything else that stands there is an error.
func (p *Provider) standing(ctx context.Context, ref provider.Ref, at place) (bool, error) {
	const op = "create"
	found, err := p.look(ctx, at, ref.UID)
	if err != nil {
		return false, p.fail(op, ref.ID, p.inZone(ctx, at.zone, err))
	}
	if found.empty() {
		return false, nil
	}
	m := found.marks()
	if found.beside != nil {
		m = marksOf(found.beside.Labels, found.beside.Description)
	}
	if err := p.owner.Foreign(m, ref.UID); err != nil {
		return false, provider.Wrap(provider.ErrConflict, op, p.name, ref.ID, err)
	}
	if m.Attempt != ref.Attempt {
		return false, provider.Wrap(provider.ErrTransient, op, p.name, ref.ID,
			fmt.Errorf("attempt %d stands there, not %d", m.Attempt, ref.Attempt)).WithReason(provider.ReasonAttemptMismatch)
	}
	return true, nil
}

// machine is the VM of a request.
func (p *Provider) machine(at place, req provider.CreateRequest, ref provider.Ref) *compute.Instance {
	m := p.owner.MarksFor(req, ref)
	labels := p.labels(m, req.Port)
	disk := &compute.AttachedDiskInitializeParams{
		SourceImage: req.Placement.Image, DiskSizeGb: p.config.DiskSizeGB, Labels: labels, Description: describe(m),
	}
	if p.config.DiskType != "" {
		disk.DiskType = "zones/" + at.zone + "/diskTypes/" + p.config.DiskType
	}
	vm := &compute.Instance{
		Name: at.name, Description: describe(m), Labels: labels,
		MachineType:       "zones/" + at.zone + "/machineTypes/" + req.Placement.MachineType,
		Disks:             []*compute.AttachedDisk{{Boot: true, AutoDelete: true, InitializeParams: disk}},
		NetworkInterfaces: []*compute.NetworkInterface{p.network(at.zone)},
		Tags:              &compute.Tags{Items: []string{p.config.NetworkTag}},
	}
	if req.CloudInit != "" {
		vm.Metadata = &compute.Metadata{Items: []*compute.MetadataItems{{Key: metadataKey, Value: &req.CloudInit}}}
	}
	if p.config.Provisioning == spot {
		no := false
		// Stopped, so that it is seen what became of it; the reconciler deletes it.
		vm.Scheduling = &compute.Scheduling{
			ProvisioningModel: "SPOT", InstanceTerminationAction: "STOP", OnHostMaintenance: "TERMINATE", AutomaticRestart: &no,
		}
	}
	if account := p.config.ServiceAccount; account.Email != "" {
		scopes := account.Scopes
		if len(scopes) == 0 {
			scopes = []string{compute.CloudPlatformScope}
		}
		vm.ServiceAccounts = []*compute.ServiceAccount{{Email: account.Email, Scopes: scopes}}
	}
	return vm
}

func (p *Provider) network(zone string) *compute.NetworkInterface {
	nic := &compute.NetworkInterface{Network: p.config.Network, Subnetwork: p.config.Subnetworks[regionOf(zone)]}
	if p.config.AddressType == external {
		nic.AccessConfigs = []*compute.AccessConfig{{Name: "External NAT", Type: "ONE_TO_ONE_NAT", NetworkTier: p.config.NetworkTier}}
	}
	return nic
}
