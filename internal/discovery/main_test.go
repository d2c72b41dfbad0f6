package discovery

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(crowdKind); kind != "" {
		crowd(kind)
		return
	}
	goleak.VerifyTestMain(m)
}
