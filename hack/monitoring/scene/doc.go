// Package scene is what Prometheus looks at: two operators on a real control plane, with proxies as processes and as VMs of
// an emulated Compute Engine, crawlers that lease them, and what goes wrong in real life.
package scene
