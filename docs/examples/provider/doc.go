// Package boxes is the worked example of docs/provider-authors-guide.md: a whole provider for a service that does not exist.
// It rents out boxes, each of which runs a forward proxy, in racks; its API is in api.go. The provider is not in the operator's
// list of types.
//
// One file for each part: config.go and boxes.go what it is made from, plan.go, create.go, get.go, delete.go and list.go a
// method each, errors.go the classes of errors, api.go HTTP. The test beside them has a service in memory and runs the
// conformance suite against it.
package boxes
