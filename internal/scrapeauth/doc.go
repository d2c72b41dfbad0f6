// Package scrapeauth lets those through to an HTTP handler whom the cluster lets get its path: the bearer token is reviewed by the
// API server (TokenReview), and so is whether its user may do that (SubjectAccessReview).
//
// Strangers who guess tokens cost the API server no more than UnknownPerSecond reviews, and keep nobody out who was let in within
// the last hour. It is here, not k8s.io/apiserver's delegation, for that bound, for an honest 401, and because that package
// made the operator's binary a seventh larger.
package scrapeauth
