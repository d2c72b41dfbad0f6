package registry

import (
	"context"
	"fmt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

// InUse returns the IDs on record of the Proxies that name the entry, from a read that is not older than the call. With an
// error nothing is known.
type InUse func(ctx context.Context, name string) (ids []string, err error)

// Result is what came of a Reload. Names are sorted.
type Result struct {
	// Err is why the entries as a whole are not in use: some of them cannot be built. Nothing has changed then.
	Err error
	// Added, Changed and Removed entries are in force.
	Added, Changed, Removed []string
	// Refused are the entries that are as they were before.
	Refused []Refusal
}

// Refusal is why one entry could not be changed or added.
type Refusal struct {
	// Name of the entry.
	Name string
	// Why is how it would have to change: whether by itself, or by somebody.
	Why Why
	// Text is deterministic, without secrets, and at most 512 bytes.
	Text string
}

// Why is the kind of a refusal, fit to be the reason of a condition.
type Why string

// The kinds of refusals. All are worth another try: Proxies go, servers come back, and calls end.
const (
	// Disowns: instances in use would be out of the entry's scope.
	Disowns Why = "InUse"
	// Unasked: what is in use could not be found out.
	Unasked Why = "InUseUnknown"
	// Busy: calls on the old configuration did not end in time.
	Busy Why = "Busy"
)

func refuse(name string, why Why, format string, args ...any) *Refusal {
	return &Refusal{Name: name, Why: why, Text: message.Clean(fmt.Sprintf(format, args...))}
}
