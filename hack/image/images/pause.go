package images

import (
	"context"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// PauseName and SquidName are the tags of the images for test clusters. Container runtimes know them as
// docker.io/library/<name>, and a kubelet that finds them does not ask a registry, for they are not "latest".
const (
	PauseName = "egress-proxies-pause:e2e"
	SquidName = "egress-proxies-squid:e2e"
)

// Pause compiles the program that holds a Pod's namespaces and returns its image, for the GOARCH.
func Pause(ctx context.Context, arch string) (v1.Image, error) {
	return alone(ctx, arch, "hack/image/pause")
}
