package gcpemulator

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"cloud.google.com/go/compute/apiv1/computepb"
)

// Limits of https://cloud.google.com/compute/docs/naming-resources,
// https://cloud.google.com/compute/docs/labeling-resources and
// https://cloud.google.com/compute/docs/metadata/setting-custom-metadata
const (
	maxLabels        = 64
	maxLabel         = 63
	maxMetadataKey   = 128
	maxMetadataValue = 256 << 10
	maxMetadata      = 512 << 10
	namePattern      = `[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?`
)

var (
	nameForm     = regexp.MustCompile(`^` + namePattern + `$`)
	metadataForm = regexp.MustCompile(`^[-_a-zA-Z0-9]+$`)
	machineForm  = regexp.MustCompile(`^projects/[^/]+/zones/([^/]+)/machineTypes/([^/]+)$`)
	networkForm  = regexp.MustCompile(`^projects/[^/]+/global/networks/(.+)$`)
)

// checkInstance refuses what the API refuses at once, and returns how many vCPUs the instance takes.
func (c *call) checkInstance(want *computepb.Instance) (cpus int, err *apiError) {
	if !nameForm.MatchString(want.GetName()) {
		return 0, errInvalid("resource.name", want.GetName(), "Must be a match of regex '"+namePattern+"'")
	}
	if err := checkLabels("resource.labels", want.GetLabels()); err != nil {
		return 0, err
	}
	if err := checkMetadata(want.GetMetadata().GetItems()); err != nil {
		return 0, err
	}
	for i, tag := range want.GetTags().GetItems() {
		if !nameForm.MatchString(tag) {
			return 0, errInvalid(fmt.Sprintf("resource.tags.items[%d]", i), tag, "Must be a match of regex '"+namePattern+"'")
		}
	}
	if len(want.GetNetworkInterfaces()) == 0 {
		return 0, errInvalid("resource.networkInterfaces", "", "At least one network interface is required.")
	}
	for i, nic := range want.GetNetworkInterfaces() {
		ref := *orString(nic.Network, "global/networks/default")
		if !networkForm.MatchString(c.project.resolve(ref)) {
			return 0, errInvalid(fmt.Sprintf("resource.networkInterfaces[%d].network", i), ref, "The URL is malformed.")
		}
	}
	if cpus, err = c.checkMachineType(want.GetMachineType()); err != nil {
		return 0, err
	}
	return cpus, c.checkImages(want)
}

func (c *call) checkMachineType(ref string) (cpus int, err *apiError) {
	m := machineForm.FindStringSubmatch(c.project.resolve(ref))
	if m == nil {
		return 0, errInvalid("resource.machineType", ref, "The URL is malformed.")
	}
	cpus, ok := c.opts.MachineTypes[m[2]]
	if m[1] != c.zone || !ok {
		return 0, errInvalid("resource.machineType", ref,
			fmt.Sprintf("Machine type with name '%s' does not exist in zone '%s'.", m[2], c.zone))
	}
	return cpus, nil
}

// checkImages refuses boot disks without an image. That one which is not there answers 404 although nothing was read:
// https://github.com/googleapis/google-cloud-java/pull/11032
func (c *call) checkImages(want *computepb.Instance) *apiError {
	if len(want.GetDisks()) == 0 {
		return errInvalid("resource.disks", "", "At least one disk is required.")
	}
	for i, d := range want.GetDisks() {
		params := d.GetInitializeParams()
		if params == nil {
			continue
		}
		ref := params.GetSourceImage()
		path := c.project.resolve(ref)
		if !strings.Contains(path, "/global/images/") {
			return errInvalid(fmt.Sprintf("resource.disks[%d].initializeParams.sourceImage", i), ref, "The URL is malformed.")
		}
		if c.image(path) == nil {
			return errNotFound(path)
		}
	}
	return nil
}

func checkLabels(field string, labels map[string]string) *apiError {
	if len(labels) > maxLabels {
		return errInvalid(field, "", fmt.Sprintf("The number of labels must not exceed %d.", maxLabels))
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		first, _ := utf8.DecodeRuneInString(key)
		if key == "" || !lower(first) || !labelText(key) {
			return errInvalid(field, key, "Label keys must begin with a lowercase letter, be at most 63 characters long and contain only lowercase letters, digits, underscores and dashes.")
		}
		if !labelText(labels[key]) {
			return errInvalid(field, labels[key], "Label values must be at most 63 characters long and contain only lowercase letters, digits, underscores and dashes.")
		}
	}
	return nil
}

func labelText(s string) bool {
	if utf8.RuneCountInString(s) > maxLabel || len(s) > 2*maxLabel+2 {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return !lower(r) && !unicode.IsDigit(r) && r != '_' && r != '-' }) < 0
}

// lower says whether r is a lower-case letter, or one of a script without cases.
func lower(r rune) bool { return unicode.IsLower(r) || unicode.Is(unicode.Lo, r) }

func checkMetadata(items []*computepb.Items) *apiError {
	total, seen := 0, map[string]bool{}
	for i, item := range items {
		key, value := item.GetKey(), item.GetValue()
		total += len(key) + len(value)
		if !metadataForm.MatchString(key) || len(key) > maxMetadataKey {
			return errInvalid(fmt.Sprintf("resource.metadata.items[%d].key", i), key, "Metadata keys must be a match of regex '[a-zA-Z0-9-_]+' and at most 128 bytes long.")
		}
		if seen[key] {
			return errInvalid("resource.metadata.items", key, "Duplicate key.")
		}
		seen[key] = true
		if len(value) > maxMetadataValue {
			return errInvalid("metadata.items["+key+"]", "…", fmt.Sprintf("Value is too large: maximum size %d character(s); actual size %d.", maxMetadataValue, len(value)))
		}
	}
	if total > maxMetadata {
		return errInvalid("metadata", "…", fmt.Sprintf("Metadata is too large: maximum total size %d character(s); actual size %d.", maxMetadata, total))
	}
	return nil
}
