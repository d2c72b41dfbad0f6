//go:build race

package scale

// fleetSize is smaller under the race detector, which makes everything ten times slower; what is bounded by a share of
// the fleet stays as sharp.
const fleetSize = 60
