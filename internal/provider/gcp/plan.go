package gcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	// metadataKey is where cloud-init looks for user-data.
	metadataKey = "user-data"
	// maxMetadataValue and maxMetadata are in bytes, see https://cloud.google.com/compute/docs/metadata/overview. Keys count.
	maxMetadataValue = 256 << 10
	maxMetadata      = 512 << 10
)

// Plan checks req and returns projects/<project>/zones/<zone>/instances/<name>.
func (p *Provider) Plan(ctx context.Context, req provider.CreateRequest) (string, error) {
	const op = "plan"
	if err := ctx.Err(); err != nil {
		return "", p.fail(op, "", err)
	}
	if err := p.check(op, "", req); err != nil {
		return "", err
	}
	return p.planned(req).String(), nil
}

func (p *Provider) planned(req provider.CreateRequest) place {
	return place{p.config.Project, req.Placement.Zone, req.Name}
}

// check returns what is wrong with a request, in the words of the Proxy's spec.
func (p *Provider) check(op, id string, req provider.CreateRequest) error {
	for _, problem := range []error{p.checkIdentity(req), p.checkPlace(req.Placement), checkMachineType(req.Placement), checkContent(req)} {
		if problem != nil {
			return provider.Wrap(provider.ErrPermanent, op, p.name, id, problem)
		}
	}
	if problem := p.checkOpen(req); problem != nil {
		return provider.Wrap(provider.ErrPermanent, op, p.name, id, problem).WithReason(provider.ReasonOpenProxyRefused)
	}
	return nil
}

// checkOpen refuses what anybody on the internet could use, as far as it can be told from here. Credentials count where they
// reach the VM: nothing on it can ask for a password that it was not given.
func (p *Provider) checkOpen(req provider.CreateRequest) error {
	const cure = "or give provider %s firewall.manage with sourceRanges, or firewall.existingSourceRanges if rules of your own restrict clients"
	f := p.config.Firewall
	switch {
	case p.config.AddressType == internal || f.Manage || len(f.ExistingSourceRanges) > 0:
		return nil
	case req.Credentials == nil:
		return fmt.Errorf("spec.auth is missing, and the VM has an external address that nothing restricts: anybody could use the proxy; set it, "+cure, p.name)
	case req.Credentials.Password == "" || !strings.Contains(req.CloudInit, req.Credentials.Password):
		return fmt.Errorf("spec.auth has no effect, for cloudInit does not use ${PROXY_PASSWORD}, and the VM has an external address that nothing "+
			"restricts: anybody could use the proxy; use it, "+cure, p.name)
	}
	return nil
}

func (p *Provider) checkIdentity(req provider.CreateRequest) error {
	switch {
	case req.UID == "" || !labelValue.MatchString(req.UID):
		return fmt.Errorf("uid %q cannot be the value of a label", req.UID)
	case req.Name != provider.NameFromUID(req.UID):
		return fmt.Errorf("name %q is not the one derived from the UID", req.Name)
	case !labelValue.MatchString(req.Spec):
		return fmt.Errorf("spec mark %q cannot be the value of a label", req.Spec)
	}
	return nil
}

func (p *Provider) checkPlace(at provider.Placement) error {
	switch {
	case at.Zone == "" && zoneName.MatchString(at.Region):
		return fmt.Errorf("placement.zone is missing; placement.region %q is a zone", at.Region)
	case at.Zone == "":
		return errors.New("placement.zone is missing: want a zone such as europe-west3-a")
	case regionName.MatchString(at.Zone):
		return fmt.Errorf("placement.zone %q is a region; want one of its zones, such as %s-b", at.Zone, at.Zone)
	case !zoneName.MatchString(at.Zone):
		return fmt.Errorf("placement.zone %q is not a zone such as europe-west3-a", at.Zone)
	case at.Region != "" && at.Region != regionOf(at.Zone):
		return fmt.Errorf("placement.region %q is not the one of placement.zone %q", at.Region, at.Zone)
	case !p.inRegions(at.Zone):
		return fmt.Errorf("placement.zone %q is in none of the regions of provider %s: %s", at.Zone, p.name, strings.Join(p.config.Regions, ", "))
	}
	return nil
}

func checkMachineType(at provider.Placement) error {
	switch {
	case at.MachineType == "":
		return errors.New("placement.machineType is missing: want one such as e2-micro")
	case !resourceName.MatchString(at.MachineType):
		return fmt.Errorf("placement.machineType %q is not a name such as e2-micro", at.MachineType)
	case at.Image == "":
		return errors.New("placement.image is missing: want one such as projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64")
	case !resourceURL.MatchString(at.Image):
		return fmt.Errorf("placement.image %q is not an image's URL or a part of one", at.Image)
	}
	return nil
}

func checkContent(req provider.CreateRequest) error {
	if req.Port < 1 || req.Port > 65535 {
		return fmt.Errorf("port %d is not within 1 to 65535", req.Port)
	}
	if n := len(req.CloudInit); n > maxMetadataValue {
		return fmt.Errorf("cloudInit has %d bytes, at most %d fit into a metadata value", n, maxMetadataValue)
	}
	if !utf8.ValidString(req.CloudInit) {
		return errors.New("cloudInit is not text in UTF-8, which is all that a metadata value can hold")
	}
	if n := len(req.CloudInit) + len(metadataKey); n > maxMetadata {
		return fmt.Errorf("metadata has %d bytes in total, at most %d are allowed", n, maxMetadata)
	}
	return nil
}
