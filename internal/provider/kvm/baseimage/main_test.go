package baseimage_test

import (
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	ctrl "sigs.k8s.io/controller-runtime"
)

// No cache leaves a goroutine behind once it is closed.
func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	goleak.VerifyTestMain(m)
}
