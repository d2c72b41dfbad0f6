package images

import (
	"context"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TargetName is the tag of the website to which proxies under test go.
const TargetName = "egress-proxies-target:e2e"

// Target compiles the website of the end-to-end tests and returns its image, for the GOARCH.
func Target(ctx context.Context, arch string) (v1.Image, error) {
	return alone(ctx, arch, "test/e2e/kubernetes/target")
}
