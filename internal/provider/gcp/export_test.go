package gcp

// Visibility is the provider's own bound.
const Visibility = visibility
