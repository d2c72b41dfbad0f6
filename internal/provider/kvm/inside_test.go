package kvm

import (
	"encoding/xml"
	"time"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Bounds that tests go to.
const (
	CallLimit     = callLimit
	SourceLimit   = sourceLimit
	AgentPatience = agentPatience
	BootLimit     = bootLimit
	RefusedRest   = refusedRest
	SilentRest    = silentRest
	MaxAgents     = maxAgentCalls
	PollPeriod    = downloadPoll
)

// Decode reads a block.
func Decode(block provider.Block) (Config, error) { return decode(block) }

// Codes is what libvirt's errors mean.
func Codes() map[libvirt.ErrorNumber]error { return codes }

// Addressable reports whether a host can be reached at an address by its form.
func Addressable(address string) bool { return addressable(address) }

// PlaceOf reads an ID.
func (p *Provider) PlaceOf(id string) (host, name string, err error) {
	at, _, err := p.placeOf("get", id)
	return at.host, at.name, err
}

// ParseVolume reads the name of a volume, and writes it again.
func ParseVolume(name string) (uid string, attempt int64, again [2]string, ok bool) {
	v, ok := parseVolume(name)
	return v.uid, v.attempt, [2]string{v.disk(), v.seed()}, ok
}

// VolumesOf names the volumes of an attempt.
func VolumesOf(o provider.Owner, at, uid string, attempt int64) (disk, seed string) {
	v := volumesOf(o, at, provider.NameFromUID(uid), uid, attempt)
	return v.disk(), v.seed()
}

// DomainUUID is that of an attempt's domain.
func DomainUUID(o provider.Owner, uid string, attempt int64) string {
	return domainUUID(o, uid, attempt).String()
}

// Metadata is the element that a domain of these marks has.
func Metadata(m provider.Marks, port int32, mac string, created time.Time) (string, error) {
	text, err := xml.Marshal(recordOf(m, port, mac, HostConfig{}, created))
	return string(text), err
}

// ReadMetadata reads it.
func ReadMetadata(text string) (m provider.Marks, port int32, created time.Time) {
	r, m := parseRecord(text)
	return m, r.port(), r.created()
}

// SeedISO makes the image with the cloud-init data.
func SeedISO(instanceID, hostname, userData string, agent bool) ([]byte, error) {
	return seedISO(instanceID, hostname, userData, agent)
}
