// Package client leases egress proxies over the operator's discovery API: https://host:8090/v1.
//
// Two ways to use it. Client.Acquire returns a Lease, which renews itself in the background until it is released or lost, and
// on which the caller reports what targets made of it:
//
//	c, err := client.New(client.Options{BaseURL: "http://egress-proxies:8090", TokenSource: client.TokenFile("/run/token")})
//	...
//	defer c.Close(context.Background())
//	lease, err := c.Acquire(ctx, client.Request{Target: "shop.example", Wait: time.Minute})
//	...
//	defer lease.Release(context.Background())
//	crawl := &http.Client{Transport: &http.Transport{Proxy: lease.HTTPProxy}}
//
// Transport does all of that for every request: an http.RoundTripper that leases per target host, retires a proxy that is
// banned, rate limited, idle, draining or dead, and reports and releases by itself.
//
// What the package guarantees:
//
//   - One call of Acquire leads to at most one lease, however many answers get lost. A lease that the caller never heard of is
//     looked for and released; if the server cannot be reached for that, it expires after its TTL.
//   - A lease never seems to last longer than it does on the server, whatever the two clocks show: its expiry is counted from
//     before the request for it was sent. (A machine that is suspended learns of the expiry at the next renewal.)
//   - A lease is over, and its Done closed, at the latest when it expires, when the server disowns it, or when any answer
//     shows that another ledger grants leases now: then every lease of the ledger before is over at once.
//   - Nothing is ever sent through a lost lease by Transport, nor over a new connection by a transport that uses
//     Lease.HTTPProxy.
//   - Passwords and tokens are in no error, log line or formatted value.
//   - Answers are read up to 1 MiB and checked; an error names the member that is wrong.
//
// Errors match sentinels with errors.Is, whatever they are wrapped in; *NoMatchError, *APIError and *ProxyError carry details
// for errors.As.
package client
