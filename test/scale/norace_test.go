//go:build !race

package scale

// fleetSize is how many Proxies the fleet has.
const fleetSize = 1000
