// Package local runs proxies as processes on the operator's own host, each with its own listen and exit address.
//
// Every instance is a few files in one folder, named after the instance:
//
//	proxy-….json   the record: marks, addresses, identity. Written first, removed last, never changed in between.
//	proxy-….auth   credentials, where the proxy asks for them
//	proxy-….log    what the process says
//
// The process holds a lock on the record for its whole life (package instancelock), so whether it runs, and as which
// process, is the kernel's knowledge and never stale. A record without a holder is a Stopped instance, one whose holder
// was not started as this instance is Unknown and left alone. Processes live in sessions of their own and outlive the
// operator; one whose record is gone ends by itself.
//
// Whoever changes the set of records holds the folder's lock exclusively, whoever reads it holds it shared: two operator
// processes on one folder cannot take one slot of the pool twice, nor see an instance that is half made. The folder is
// opened once, and nothing is concluded while its path leads to another one.
package local
