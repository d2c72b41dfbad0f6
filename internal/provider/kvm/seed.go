package kvm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/kdomanski/iso9660"
	"sigs.k8s.io/yaml"
)

const (
	// maxCloudInit bounds the user-data in bytes: what Kubernetes lets a Secret hold, filled in.
	maxCloudInit = 2 << 20
	seedLabel    = "cidata"

	// agentVendorData is cloud-init's for guests without an agent. A user's own data is merged over it.
	agentVendorData = "#cloud-config\npackages: [qemu-guest-agent]\nruncmd:\n- [systemctl, start, qemu-guest-agent]\n"
)

// seedISO returns an ISO 9660 image as cloud-init's data source NoCloud reads it. The instance-id stays the same for the
// life of a domain: a guest that reboots does not run its user-data again.
//
// The library writes through a private temporary folder, which is removed before this returns.
func seedISO(instanceID, hostname, userData string, agent bool) (image []byte, err error) {
	meta, err := yaml.Marshal(map[string]string{"instance-id": instanceID, "local-hostname": hostname})
	if err != nil {
		return nil, err
	}
	w, err := iso9660.NewWriter()
	if err != nil {
		return nil, seedError(err)
	}
	defer func() {
		if e := w.Cleanup(); err == nil && e != nil {
			image, err = nil, seedError(e)
		}
	}()
	files := map[string]string{"meta-data": string(meta), "user-data": userData}
	if agent {
		files["vendor-data"] = agentVendorData
	}
	for _, name := range sorted(files) {
		if err := w.AddFile(strings.NewReader(files[name]), name); err != nil {
			return nil, seedError(err)
		}
	}
	var out bytes.Buffer
	if err := w.WriteTo(&out, seedLabel); err != nil {
		return nil, seedError(err)
	}
	return out.Bytes(), nil
}

// seedError leaves out the path of the temporary folder, which is another one each time.
func seedError(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return fmt.Errorf("making the seed in the temporary folder %s: %s: %w", os.TempDir(), e.Op, e.Err)
	}
	return fmt.Errorf("making the seed: %w", err)
}
