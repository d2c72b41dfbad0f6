package client

import (
	"encoding/json"
	"fmt"
	"time"
)

const (
	// maxSlice is the longest wait that the server takes.
	maxSlice = 30 * time.Second
	// MaxWait bounds Request.Wait.
	MaxWait = 24 * time.Hour
)

// Prefer decides between proxies that hold equally many leases.
type Prefer string

// The preferences. PreferDefault leaves it to the server.
const (
	PreferDefault  Prefer = ""
	PreferLatency  Prefer = "latency"
	PreferRotation Prefer = "rotation"
)

// Request says what a lease is wanted on. Its zero value asks for any proxy of any namespace, for no target in particular,
// for the server's default TTL and without waiting.
type Request struct {
	// Selector holds attributes that the proxy must have: at most 32, shaped like Kubernetes labels.
	Selector map[string]string
	// Namespace restricts to one; empty for all that the token may see.
	Namespace string
	// TTL is for how long the lease is granted and each time renewed: whole seconds, at least 1 s, at most what the server
	// allows (1 h by default); 0 for the server's default (5 m). When the crawler dies, its leases last that long.
	TTL time.Duration
	// Target is the host name that will be visited, in any spelling that CanonicalTarget takes; empty for none in
	// particular. Proxies that rest for it are not given, and reports default to it.
	Target string
	// Prefer decides between proxies that hold equally many leases.
	Prefer Prefer
	// Wait is how long to wait at most for a proxy when none is free: 0 for not at all, at most MaxWait. The server is asked
	// for whole seconds, so it may take half a second more or less.
	Wait time.Duration
}

// checked returns r in canonical form.
func (r Request) checked() (Request, error) {
	switch {
	case r.TTL < 0 || r.TTL%time.Second != 0 || r.TTL > maxTTL:
		return r, fmt.Errorf("client: TTL %v must be whole seconds, at least 1s, or 0 for the server's default", r.TTL)
	case r.Wait < 0 || r.Wait > MaxWait:
		return r, fmt.Errorf("client: Wait %v is not within 0 and %v", r.Wait, MaxWait)
	case r.Prefer != PreferDefault && r.Prefer != PreferLatency && r.Prefer != PreferRotation:
		return r, fmt.Errorf("client: Prefer %q is neither %s nor %s", r.Prefer, PreferLatency, PreferRotation)
	}
	if r.Target != "" {
		target, err := CanonicalTarget(r.Target)
		if err != nil {
			return r, err
		}
		r.Target = target
	}
	return r, nil
}

type wireRequest struct {
	Selector    map[string]string `json:"selector,omitempty"`
	Namespace   string            `json:"namespace,omitempty"`
	TTLSeconds  int64             `json:"ttlSeconds,omitempty"`
	Target      string            `json:"target,omitempty"`
	Prefer      Prefer            `json:"prefer,omitempty"`
	WaitSeconds int64             `json:"waitSeconds,omitempty"`
}

// body encodes r, asking the server to wait for up to slice.
func (r Request) body(slice time.Duration) []byte {
	return encode(wireRequest{
		Selector: r.Selector, Namespace: r.Namespace, TTLSeconds: int64(r.TTL / time.Second), Target: r.Target,
		Prefer: r.Prefer, WaitSeconds: int64(slice / time.Second),
	})
}

// encode is for structs of strings and numbers, which always can be.
func encode(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return body
}
