package gcp

import (
	"strconv"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// usage is what a list says about ports.
type usage struct {
	// began is when the list was asked for.
	began time.Time
	ports map[int32]bool
	// shown are the creations of which there was a VM.
	shown map[string]bool
	// complete: no zone was unread.
	complete bool
}

// add takes note of a VM.
func (u usage) add(inst provider.Instance, port int32, tagged bool) {
	u.shown[attemptAt(inst.ID, inst.Marks.Attempt)] = true
	if tagged && port > 0 {
		u.ports[port] = true
	}
}

// opening is a port that was asked for at that time.
type opening struct {
	port int32
	at   time.Time
}

// attemptAt names one creation.
func attemptAt(id string, attempt int64) string { return id + "#" + strconv.FormatInt(attempt, 10) }

// expected are the ports of creations that a list may not show yet.
func (p *Provider) expected() map[int32]bool {
	want := map[int32]bool{}
	for key, o := range p.rule.soon {
		if p.window.Passed(provider.Ref{RequestedAt: o.at}) {
			delete(p.rule.soon, key)
			continue
		}
		want[o.port] = true
	}
	return want
}
