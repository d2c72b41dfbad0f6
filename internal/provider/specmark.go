package provider

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// SpecVersion is the version in which new spec marks are written.
const SpecVersion = "v1"

// SpecInput is what an instance's behaviour depends on, as far as the Proxy decides it. Provider configuration is not
// part of it: editing a catalogue replaces nothing.
type SpecInput struct {
	UID       string
	Placement Placement
	Port      int32
	// Template is the cloud-init before its variables are filled in; Values are those it uses, by name.
	Template string
	Values   map[string]string
	// CredentialRevision is empty without credentials, and the same for all credentials where the provider implements
	// CredentialUpdater.
	CredentialRevision string
}

// SpecMark returns the mark of in: the version and 16 hex digits of a hash keyed with the UID, so that equal marks of
// two Proxies say nothing about their contents.
func SpecMark(in SpecInput) string { return specMarkV1(in) }

var specMarkForm = regexp.MustCompile(`^v[0-9]+-.+$`)

// ValidSpecMark reports whether mark has the form of a spec mark of any version, those of newer operators included.
func ValidSpecMark(mark string) bool { return specMarkForm.MatchString(mark) }

// SameSpec reports whether mark was made from in. It computes under the mark's own version, so that an upgrade of the
// operator alone never makes an instance differ. A mark of an unknown version counts as the same: a newer operator
// wrote it, and the older one has no ground to replace anything.
func SameSpec(mark string, in SpecInput) bool {
	version, _, ok := strings.Cut(mark, "-")
	if !ok {
		return false
	}
	if version == "v1" {
		return hmac.Equal([]byte(mark), []byte(specMarkV1(in)))
	}
	return true
}

func specMarkV1(in SpecInput) string {
	h := hmac.New(sha256.New, []byte(in.UID))
	// Lengths go in front, so that no two inputs run together into the same bytes.
	put := func(s string) { fmt.Fprintf(h, "%d:%s", len(s), s) }
	put(in.Placement.Region)
	put(in.Placement.Zone)
	put(in.Placement.MachineType)
	put(in.Placement.Image)
	put(fmt.Sprint(in.Port))
	put(in.Template)
	for _, name := range sortedKeys(in.Values) {
		put(name)
		put(in.Values[name])
	}
	put(in.CredentialRevision)
	return "v1-" + hex.EncodeToString(h.Sum(nil)[:8])
}
