package providertest

import (
	"context"
	"testing"
)

// T is what the suite needs of a test. It is smaller than testing.T and its Run takes T again, so that the suite's own
// tests can stand in for it.
type T interface {
	Helper()
	// Context ends when the test does.
	Context() context.Context
	// Cleanup runs f after the test, last one first.
	Cleanup(f func())
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	// Fatalf and Skipf end the goroutine they are called from.
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	// Run runs f as a part of the test under that name and reports whether it did not fail.
	Run(name string, f func(T)) bool
}

// Go makes a T of a Go test.
func Go(t *testing.T) T { return goT{t} }

type goT struct{ *testing.T }

func (g goT) Run(name string, f func(T)) bool {
	return g.T.Run(name, func(t *testing.T) { f(goT{t}) })
}
