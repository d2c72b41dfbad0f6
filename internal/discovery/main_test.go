package discovery

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(crowdAddr); addr != "" {
		crowd(addr)
		return
	}
	goleak.VerifyTestMain(m)
}
