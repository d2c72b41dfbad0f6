package main

// FROZEN. This file is what the lease API is measured against: net/http and encoding/json as everybody would write it,
// with nothing to decide and nothing to remember. A change here changes what every figure means, so there is none:
// neither to make it faster nor to make it slower, but for what the API's own answers come to hold.

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
)

// referenceBody has the members of a request for a lease.
type referenceBody struct {
	Selector    map[string]string `json:"selector"`
	Namespace   string            `json:"namespace"`
	TTLSeconds  int64             `json:"ttlSeconds"`
	Target      string            `json:"target"`
	Prefer      string            `json:"prefer"`
	WaitSeconds int64             `json:"waitSeconds"`
}

// referenceProxy, referenceLease and referenceList have the members of the API's answers.
type referenceProxy struct {
	Namespace           string            `json:"namespace"`
	Name                string            `json:"name"`
	URL                 string            `json:"url,omitempty"`
	IP                  string            `json:"ip,omitempty"`
	Port                int32             `json:"port,omitempty"`
	Provider            string            `json:"provider,omitempty"`
	Mode                string            `json:"mode"`
	Attributes          map[string]string `json:"attributes"`
	Phase               string            `json:"phase"`
	Healthy             bool              `json:"healthy"`
	LatencyMillis       *int64            `json:"latencyMillis,omitempty"`
	ExitAddress         string            `json:"exitAddress,omitempty"`
	ActiveLeases        int               `json:"activeLeases"`
	MaxConcurrentLeases int32             `json:"maxConcurrentLeases,omitempty"`
	Cordoned            bool              `json:"cordoned"`
}

type referenceAuth struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

type referenceLease struct {
	LeaseID string `json:"leaseID"`
	Proxy   struct {
		referenceProxy
		Auth *referenceAuth `json:"auth,omitempty"`
	} `json:"proxy"`
	ExpiresAt  string `json:"expiresAt"`
	TTLSeconds int64  `json:"ttlSeconds"`
	Epoch      string `json:"epoch"`
}

type referenceList struct {
	Proxies  []referenceProxy `json:"proxies"`
	Count    int              `json:"count"`
	Continue string           `json:"continue,omitempty"`
}

// reference answers with leases and lists that were made beforehand.
func reference(leases []referenceLease, list referenceList) http.Handler {
	var next atomic.Uint64
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/leases", func(w http.ResponseWriter, r *http.Request) {
		var body referenceBody
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(leases[next.Add(1)%uint64(len(leases))])
	})
	mux.HandleFunc("GET /v1/proxies", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
	})
	return mux
}

// marshalList encodes list n times.
func marshalList(list referenceList, n int) error {
	for range n {
		if _, err := json.Marshal(list); err != nil {
			return err
		}
	}
	return nil
}
