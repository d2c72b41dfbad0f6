//go:build !linux

package health

import (
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

func blackHole(*testing.T) (fleet.Endpoint, bool) { return fleet.Endpoint{}, false }
