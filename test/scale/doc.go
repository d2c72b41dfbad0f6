// Package scale runs a whole operator over a large fleet in simulated time and measures what a bad day costs.
//
// Everything of the operator is real: the controller with its work queue, the caches, the fleet's read model, observation,
// health engine, lease ledger and orphan collector, wired as cmd/operator does. Simulated are only its surroundings: the
// API server (server_test.go), the cloud (cloud_test.go) and the probes' outcome (prober_test.go). All of it lives in a
// testing/synctest bubble, where time passes as soon as everybody waits for it: ten minutes of an outage take a moment,
// and no test waits for anything real.
//
// The order in which goroutines run is not part of the simulation, so two runs differ in detail. What a test asserts
// holds in every order; random numbers are seeded.
package scale
