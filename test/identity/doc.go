// Package identity sets several whole operators on one backend and lets them live: two clusters with the same installation
// ID, different installations, an installation ID changed between restarts, operators confined to a namespace, statuses
// copied between Proxies, and instances of strangers in every disguise. Whatever one operator does, what is not its own
// stands afterwards as it stood before.
//
// An operator here is the real reconciler, observer, collector and fleet store on an API server in memory. Everything moves
// in rounds on one goroutine, and time passes between them only.
package identity
