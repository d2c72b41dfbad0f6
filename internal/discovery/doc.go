// Package discovery is the HTTP API that crawlers call: which proxies there are, a lease on one of them, and what was
// seen through it.
//
// Connections are bounded by connlimit. A request passes, outermost first: recover, request log, body limit,
// authentication, routes. Handlers read the fleet model and the lease ledger and nothing else; none of them waits for
// anything but their locks, unless the client asks it to wait for a proxy.
//
// What leaves the process: credentials of proxies only in answers about a lease, and only when the API asks its own
// clients for a token; neither tokens nor credentials nor values that clients sent in any log line or error.
package discovery
