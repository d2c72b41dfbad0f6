package gcp

import (
	"fmt"
	"slices"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func checkScope(block provider.Block, c Config) error {
	if !projectID.MatchString(c.Project) {
		return block.Errorf("project", "%q: want a project's ID, such as crawlers-123456", c.Project)
	}
	if len(c.Regions) > maxItems {
		return block.Errorf("regions", "%d entries, at most %d are allowed; leave it empty for all", len(c.Regions), maxItems)
	}
	for i, r := range c.Regions {
		key := fmt.Sprintf("regions[%d]", i)
		if zoneName.MatchString(r) {
			return block.Errorf(key, "%q is a zone; its region is %q", r, regionOf(r))
		}
		if !regionName.MatchString(r) {
			return block.Errorf(key, "%q is not a region, such as europe-west3", r)
		}
		if slices.Contains(c.Regions[:i], r) {
			return block.Errorf(key, "%q is repeated", r)
		}
	}
	return nil
}

func checkMachine(block provider.Block, c Config) error {
	if c.DiskSizeGB < defaultDiskSizeGB || c.DiskSizeGB > maxDiskSizeGB {
		return block.Errorf("diskSizeGb", "%d: want %d to %d", c.DiskSizeGB, defaultDiskSizeGB, maxDiskSizeGB)
	}
	if c.DiskType != "" && !resourceName.MatchString(c.DiskType) {
		return block.Errorf("diskType", "%q: want the name of a disk type, such as pd-balanced", c.DiskType)
	}
	if c.Provisioning != standard && c.Provisioning != spot {
		return block.Errorf("provisioning", "%q: want %s or %s", c.Provisioning, standard, spot)
	}
	return checkAccount(block, c.ServiceAccount)
}

func checkAccount(block provider.Block, a ServiceAccount) error {
	if a.Email != "" && !accountEmail.MatchString(a.Email) {
		return block.Errorf("serviceAccount.email", "%q: want the address of a service account, or default", a.Email)
	}
	if len(a.Scopes) > maxItems {
		return block.Errorf("serviceAccount.scopes", "%d entries, at most %d are allowed", len(a.Scopes), maxItems)
	}
	for i, s := range a.Scopes {
		if !scopeURL.MatchString(s) {
			return block.Errorf(fmt.Sprintf("serviceAccount.scopes[%d]", i), "%q: want a URL such as https://www.googleapis.com/auth/logging.write", s)
		}
	}
	if a.Email == "" && len(a.Scopes) > 0 {
		return block.Errorf("serviceAccount.scopes", "there is no serviceAccount.email that they could be of")
	}
	return nil
}

// maxLabels is 64 less the marks, see https://cloud.google.com/compute/docs/labeling-resources.
const maxLabels = 48

func checkLabels(block provider.Block, c Config) error {
	if len(c.Labels) > maxLabels {
		return block.Errorf("labels", "%d entries, at most %d are allowed", len(c.Labels), maxLabels)
	}
	for key, value := range c.Labels {
		switch {
		case !labelKey.MatchString(key):
			return block.Errorf("labels", "%q: want a key of 1 to 63 characters of a-z, 0-9, '_' and '-', beginning with a letter", key)
		case reserved(key):
			return block.Errorf("labels", "%q is one of the operator's own", key)
		case !labelValue.MatchString(value):
			return block.Errorf("labels."+key, "%q: want at most 63 characters of a-z, 0-9, '_' and '-'", value)
		}
	}
	return nil
}
