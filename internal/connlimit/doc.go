// Package connlimit bounds the connections of an HTTP server so that strangers keep nobody out: how many there are, how many
// of them belong to nobody who has shown a token, and how many lines the headers of those have.
//
// A server uses it with
//
//	l := connlimit.New(listener, connlimit.Options{Most: 100})
//	server.ConnState, server.ConnContext = l.State, l.Context
//	server.Serve(l)
//
// and its authentication calls connlimit.Of(request).Prove().
package connlimit
