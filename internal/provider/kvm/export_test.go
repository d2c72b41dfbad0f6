package kvm

import "github.com/egress-proxies/egress-proxies-operator/internal/provider"

// Visibility is the provider's own bound.
const Visibility = visibility

// NewOn returns the provider of an entry that reaches its hosts in another way.
func NewOn(opts provider.Options, s Seams) (*Provider, error) { return NewWithSeams(opts, s) }
