// Package gcpemulator is a stateful stand-in for the Compute Engine v1 REST API, as Google's Go SDK speaks to it: an
// http.Handler that keeps instances, disks, operations and firewalls with their life cycle, and does nothing but by its
// clock. Faults are injected per call; a leak probe lists everything that is left.
//
// It answers what the public reference (https://cloud.google.com/compute/docs/reference/rest/v1) describes of the methods
// in the route table and no more. Where the reference is silent, the place says what the behaviour was taken from.
package gcpemulator
