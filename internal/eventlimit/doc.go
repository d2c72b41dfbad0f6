// Package eventlimit bounds what is published as Kubernetes Events, so that neither one object that flaps nor a fleet that
// fails at once floods the API server.
//
// The recorder of client-go folds Events that differ in nothing but their note into a series of two requests, but it makes
// them known to the server without any bound, one request for each object and reason at the same instant. Here an Event needs
// a token of three buckets, and takes one of each or of none:
//
//	its object's, for its reason: one that flaps is told now and then, and no reason takes another one's place
//	its reason's, over all objects of a kind: a thousand Proxies that are NotReady leave room for the provider that is the cause
//	the one for everything, of which a part is kept for Warnings
//
// What gets no token is dropped and counted. It is not lost: every caller writes a log line beside its Event.
package eventlimit
