// Package gcpemulator is a stateful stand-in for the Compute Engine v1 REST API, as Google's Go clients speak to it: an
// http.Handler that keeps instances, disks, operations and firewalls with their life cycle, and does nothing but by its
// clock. Faults are injected per call; a leak probe lists everything that is left.
//
// It answers what the public reference (https://cloud.google.com/compute/docs/reference/rest/v1) describes of the methods
// in the route table and no more. Where the reference is silent, the place says what the behaviour was taken from.
//
// It differs from Compute Engine in what follows. Networks, subnets, service accounts, machine types and images are names;
// nothing is reachable unless Options.OnRunning makes it so. Only what has effects here is checked: other fields come back
// as they were given. Disks come into being with instances only. Nobody is asked for credentials. No limit of rates holds
// unless set. Messages are close to the real ones, not the same.
package gcpemulator
