// Package crash kills the operator at every effect it has and checks that it still leaves exactly one instance per living
// Proxy and none without one.
//
// A normal run of a flow records every effect: writes to the API server and calls to the backend. Then, for each of them,
// the flow is run again three times and the operator dies before the effect, after it was sent but before its answer (which
// then arrives late), and after its answer. It is restarted with nothing but what is on record, and has to converge.
package crash
