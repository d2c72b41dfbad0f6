package host

import (
	"io"

	"github.com/egress-proxies/egress-proxies-operator/hack/components"
)

// Hosts are those that were brought up, at least in part.
type Hosts struct {
	config    Config
	processes []*components.Process
	progress  io.Writer
}
