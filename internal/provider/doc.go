// Package provider is the contract between the operator and the backends on which proxies run.
//
// # Rules
//
// A provider knows one kind of instance: a forward proxy with an exit of its own. What the interfaces cannot say:
//
//   - An ID names its whole scope (project, zone, host, namespace), ends in the instance's name, and is decided by Plan.
//     For an ID outside its scope a provider answers ErrPermanent with reason ScopeMismatch, never ErrNotFound.
//   - Create is sent only after the caller has written {ID, attempt, requestedAt} on record and only while that record
//     is young (see Window). Repeated for the same attempt it succeeds without a second instance; it never succeeds on
//     another attempt, and never on an instance whose owner, installation or cluster is not the request's.
//   - ErrNotFound is proof: the scope was readable, the answer was about the instance, and no Create sent under the
//     record can still take effect. Until then Get says Provisioning.
//   - Delete removes only the attempt its Ref names, by an identity that the backend never gives twice. Where another
//     attempt holds the ID, the named one is absent and Delete succeeds without touching anything.
//   - Whatever does not carry this installation's marks is foreign: never adopted, changed, deleted or listed.
//   - An instance is everything Create made under one ID; it exists while any part of it does.
//   - Every method is safe for concurrent use, honours its context and returns once the backend accepted the request.
//
// Package providertest checks every one of these rules against any provider.
package provider
