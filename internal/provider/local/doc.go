// Package local runs proxies as processes on the operator's own host, each with its own listen and exit address.
//
// Every instance is a few files in one folder, named after the instance:
//
//	proxy-….json   the record: marks, addresses, identity. Written first, removed last.
//	proxy-….auth   credentials, where the proxy asks for them
//	proxy-….log    what the process says
//
// The process holds a lock on the record for its whole life (package instancelock), so whether it runs, and as which
// process, is the kernel's knowledge and never stale. A record without a holder is a Stopped instance. Processes live in
// sessions of their own and outlive the operator.
//
// Whoever changes the set of records holds the folder's lock exclusively, whoever reads it holds it shared: two operator
// processes on one folder cannot take one slot of the pool twice, nor see an instance that is half made.
package local
