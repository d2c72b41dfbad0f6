package kvm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// namespace is that of our element in a domain's metadata.
const namespace = "https://crawl.example.com/xmlns/egress-proxies-operator/1"

// record is our element. Values stand in attributes, where encoding/xml keeps every character that XML can hold. libvirt finds
// an element by its namespace and gives it back without one, so that is written and not asked for.
type record struct {
	XMLName      xml.Name `xml:"instance"`
	Xmlns        string   `xml:"xmlns,attr"`
	Managed      string   `xml:"managed,attr"`
	UID          string   `xml:"uid,attr"`
	Namespace    string   `xml:"namespace,attr"`
	Name         string   `xml:"name,attr"`
	Installation string   `xml:"installation,attr"`
	Cluster      string   `xml:"cluster,attr"`
	Spec         string   `xml:"spec,attr"`
	Attempt      string   `xml:"attempt,attr"`
	Port         string   `xml:"port,attr"`
	MAC          string   `xml:"mac,attr"`
	// Host is the name by which the domain was made, which is in the names of its volumes. Pool has them and Network gives the
	// address, for the configuration may name others by now.
	Host    string `xml:"host,attr"`
	Pool    string `xml:"pool,attr"`
	Network string `xml:"network,attr"`
	Created string `xml:"created,attr"`
}

func recordOf(m provider.Marks, port int32, mac string, h HostConfig, created time.Time) record {
	l := m.ToMap()
	return record{
		Xmlns: namespace, Managed: l[provider.LabelManaged], UID: m.UID, Namespace: m.Namespace, Name: m.Name, Installation: m.Installation, Cluster: m.Cluster,
		Spec: m.Spec, Attempt: l[provider.LabelAttempt], Port: strconv.Itoa(int(port)), MAC: mac,
		Host: h.Name, Pool: h.Pool, Network: h.Network, Created: created.UTC().Format(time.RFC3339Nano),
	}
}

// parseRecord reads our element. Marks are zero, hence foreign, unless all of them parse.
func parseRecord(text string) (r record, m provider.Marks) {
	if err := xml.Unmarshal([]byte(text), &r); err != nil {
		return record{}, provider.Marks{}
	}
	m, ok := provider.MarksFromMap(map[string]string{
		provider.LabelManaged: r.Managed, provider.LabelUID: r.UID, provider.LabelNamespace: r.Namespace, provider.LabelName: r.Name,
		provider.LabelInstallation: r.Installation, provider.LabelCluster: r.Cluster, provider.LabelSpec: r.Spec, provider.LabelAttempt: r.Attempt,
	})
	if !ok {
		return record{}, provider.Marks{}
	}
	return r, m
}

func (r record) port() int32 {
	n, err := strconv.ParseUint(r.Port, 10, 16)
	if err != nil {
		return 0
	}
	return int32(n)
}

// created returns the zero time for what does not parse.
func (r record) created() time.Time {
	t, err := time.Parse(time.RFC3339Nano, r.Created)
	if err != nil {
		return time.Time{}
	}
	return t
}

// representable reports whether XML can hold the text, and gives it back as it was.
func representable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF
	})
}

// domainUUID is that of one attempt's domain. Installation and cluster are in it, so that a cluster restored from another's
// backup, with its UIDs, cannot redefine the other's domains.
func domainUUID(o provider.Owner, uid string, attempt int64) uuid.UUID {
	space := uuid.NewSHA1(uuid.NameSpaceOID, []byte("egress-proxies-operator/kvm/"+o.Installation+"/"+o.Cluster))
	return uuid.NewSHA1(space, []byte(provider.CreateToken(uid, attempt)))
}

// macOf derives the address of a domain's interface, which locally administered ones are free for.
func macOf(id uuid.UUID) string {
	sum := sha256.Sum256(id[:])
	return fmt.Sprintf("52:%02x:%02x:%02x:%02x:%02x", sum[0], sum[1], sum[2], sum[3], sum[4])
}

// The volumes of an instance: proxy-….<uid>.<attempt>.<digest of the owner>.<kind>.
const (
	kindDisk = "disk.qcow2"
	kindSeed = "seed.iso"
)

// volumes names those of one attempt.
type volumes struct {
	name, uid string
	attempt   int64
	owner     string
}

// volumesOf names those of one attempt on a host. The host is in the digest: two of them may share a pool, and what belongs to one
// must not look to the other like something of its own that has lost its domain.
func volumesOf(o provider.Owner, host, name, uid string, attempt int64) volumes {
	sum := sha256.Sum256([]byte(o.Installation + "/" + o.Cluster + "/" + host))
	return volumes{name, uid, attempt, hex.EncodeToString(sum[:8])}
}

func (v volumes) prefix() string {
	return v.name + "." + v.uid + "." + strconv.FormatInt(v.attempt, 10) + "." + v.owner + "."
}
func (v volumes) disk() string { return v.prefix() + kindDisk }
func (v volumes) seed() string { return v.prefix() + kindSeed }

// parseVolume reads a volume's name; ok is false for one that is no instance's.
func parseVolume(name string) (v volumes, ok bool) {
	part := strings.SplitN(name, ".", 5)
	if len(part) != 5 || part[4] != kindDisk && part[4] != kindSeed {
		return v, false
	}
	attempt, err := strconv.ParseInt(part[2], 10, 64)
	if err != nil || attempt <= 0 || part[0] != provider.NameFromUID(part[1]) {
		return v, false
	}
	v = volumes{part[0], part[1], attempt, part[3]}
	return v, v.prefix()+part[4] == name
}
