// Package forwardproxy is a small forward proxy: CONNECT tunnels and plain HTTP
// in absolute form. How it reaches a destination ([Config].Dial) and whom it
// serves ([Config].Authorize) are given to it, so a gateway can reuse it.
//
// It hides its clients: it adds no Via, Forwarded or X-Forwarded-For, invents no
// User-Agent, never decompresses, never follows a redirect and never uses a
// proxy named in the environment. Header fields that belong to one connection,
// and credentials for the proxy, end here in both directions.
//
// A server lives once:
//
//	New ──▶ Serve (any number of listeners) ──▶ Shutdown: no new connections
//	                                             │ what runs may finish
//	                                             ▼ until the context ends
//	                                            all closed, no goroutine left
//
// Every failure the proxy itself answers with carries a short text without
// detail from inside and a Proxy-Status field (RFC 9209), by which a crawler
// tells the proxy's own 403 from the destination's:
//
//	400  malformed target or request, or one the proxy does not forward
//	403  destination refused by policy; client address not allowed
//	405  TRACE
//	407  no or wrong credentials (never relayed from a destination)
//	502  destination not reachable, or its answer was not HTTP
//	503  too many connections
//	504  destination silent or too slow to connect
//
// Limits worth knowing: HTTP/1.x only; Upgrade is stripped, so WebSockets need
// CONNECT; the order and letter case of forwarded field names are Go's;
// authentication bound to a connection (NTLM, Negotiate) works through CONNECT
// only, because connections to plain HTTP destinations are shared by clients.
package forwardproxy
