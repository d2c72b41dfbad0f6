//go:build !linux

package identity

// removeBinary has nothing to remove where the local provider does not run.
func removeBinary() {}
