package providertest

import (
	"context"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Harness prepares an environment of its own for each rule. What it starts it removes with t.Cleanup.
type Harness func(t T) *Env

// Env is a provider's backend as the suite may use it. The first group is required. The others are optional: a rule that
// needs one which is nil is skipped and says so. Hooks that break something return how to mend it and may be called
// once per rule.
type Env struct {
	// Provider constructs a provider on the backend, under the entry name, as a process that has just started would.
	// Called again it is a restart, with another owner another installation on the same backend.
	Provider func(name string, owner provider.Owner) provider.Provider
	// Owner whose provider is under test.
	Owner provider.Owner
	// Request returns a valid request with a UID never used before. All requests of a rule lie in one scope (zone,
	// host, namespace). The suite puts sentinels into CloudInit and Credentials unless NoCloudInit, NoCredentials.
	Request func() provider.CreateRequest
	// Invalid are requests that can never be satisfied.
	Invalid []Invalid
	// ForeignIDs are well-formed IDs outside of the provider's scope; MalformedIDs are no IDs at all. The suite has
	// some malformed ones of its own.
	ForeignIDs, MalformedIDs []string
	// Window is the one the provider works with, its own Visibility included. Its clock is the provider's.
	Window provider.Window
	// Wait lets a little time pass for the backend, and on Window.Clock if that is a fake; the suite calls it between
	// polls, at most Polls times (default 600) for one expectation.
	Wait  func(ctx context.Context) error
	Polls int
	// Leftovers is the leak probe: one line, beginning with the ID, for everything on the backend that a creation
	// made or the harness placed and that is not gone, as found without the provider's help.
	Leftovers func(ctx context.Context) ([]string, error)

	// Limit is how long, in real time, a call may take that has nothing to wait for; default 10 s.
	Limit time.Duration
	// Many is how many instances ListByTag has to be tried with to see more than one page; default 3.
	Many int
	// NoCloudInit and NoCredentials say that the provider refuses requests with them.
	NoCloudInit, NoCredentials bool

	// Advance lets d pass on Window.Clock.
	Advance func(d time.Duration)
	// HoldBoot keeps new instances from becoming Running until released.
	HoldBoot func() (release func())
	// HoldCreate pauses the next Create between its beginning and the check right before sending; reached is closed
	// when it pauses.
	HoldCreate func() (reached <-chan struct{}, release func())
	// HoldGet pauses the next Get right before it reads the instance.
	HoldGet func() (reached <-chan struct{}, release func())
	// HoldSend pauses the next Create after it has looked at what stands under the ID and before the backend acts.
	HoldSend func() (reached <-chan struct{}, release func())
	// HoldDelete pauses the next Delete after it has found its instance and before the backend removes anything.
	HoldDelete func() (reached <-chan struct{}, release func())
	// LoseAnswer makes the next creation take effect although its caller gets an error.
	LoseAnswer func()
	// ArriveLate makes the next creation reach the backend only after d, and its caller get an error.
	ArriveLate func(d time.Duration)
	// ShowLate makes the next creation visible only d after its acceptance.
	ShowLate func(d time.Duration)
	// FailLate makes the next creation fail after its acceptance, for a reason of that class, leaving parts or nothing.
	FailLate func(class error, leave bool)
	// Place puts something without this operator's marks under id by hand. untouched reports whether it is still
	// there as it was placed.
	Place func(id string) (untouched func() bool)
	// Stop shuts the instance off; Terminate ends it for good; Confuse brings it into a state that the provider does
	// not know; Vanish removes it with all its parts; LoseMain removes the instance proper and leaves a part.
	Stop, Terminate, Confuse, Vanish, LoseMain func(id string)
	// BreakScope makes the scope in which id lies unreadable.
	BreakScope func(id string) (restore func())
	// ExhaustQuota leaves no room for another instance.
	ExhaustQuota func() (restore func())
	// Throttle makes the backend ask the next call of each kind to come back after d.
	Throttle func(d time.Duration) (restore func())
	// Deny makes the backend refuse the operator's own credentials.
	Deny func() (restore func())
	// CredentialRevision returns the revision of the credentials that the instance accepts. Required of a
	// provider.CredentialUpdater.
	CredentialRevision func(id string) string
}

// Invalid is a request that can never be satisfied, with what the message has to name.
type Invalid struct {
	Request provider.CreateRequest
	// Field and Value as the message spells them, for example "placement.zone" and "nowhere".
	Field, Value string
}
