// Package proxy reconciles Proxy objects: it makes the instance of each exist, keeps it existing and removes it.
//
// A pass runs in a fixed order over one object in memory:
//
//	resolve   provider entry, credentials, cloud-init       (errors block acting, nothing else)
//	observe   what stands under the recorded ID             → sight
//	health    what the health engine says of it
//	decide    sight → step, from the table in table.go
//	write     one status write, resourceVersion-checked     (a conflict drops the pass)
//	act       at most one backend call; only its error is written afterwards
//
// Nothing is created before {ID, attempt, requestedAt} is on record, and that write proves that the pass saw the newest
// object: two processes that believe to lead cannot both create.
package proxy
