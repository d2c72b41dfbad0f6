// Package crash kills the operator at every effect it has and checks that it still leaves exactly one instance per living
// Proxy and none without one.
//
// A normal run of a flow records every effect: writes to the API server and calls to the backend. Then, for each of them,
// the flow is run again three times and the operator dies before the effect, after it was sent but before its answer (which
// then arrives late), and after its answer; a call also once more so that it arrives when the successor has long acted. It is
// restarted with nothing but what is on record, and has to converge.
//
// Backends are clouds in memory, whose providers are taken for right, and an emulator of Compute Engine, which the provider
// gcp reaches through Google's SDK over HTTP. There, each mutating request is an effect of its own.
//
// So is each mutating call of the provider kvm to two libvirt daemons in memory. Besides, such a call also arrives in the midst
// of what the successor does, between two of its calls; and a process is not killed but paused between two of its calls, and
// wakes up when another one has long acted. Of these two a sample is run, which CRASH_SEED chooses.
package crash
