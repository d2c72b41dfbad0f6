package main

import (
	"context"
	"fmt"
	"os/exec"
)

const module = "github.com/egress-proxies/egress-proxies-operator"

// makePause makes the image that holds a Pod's namespaces, as an archive.
func makePause(ctx context.Context, file string) error {
	cmd := exec.CommandContext(ctx, "go", "run", module+"/hack/image", "pause", "-o", file)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("making the pause image (without -pause this has to run inside of the repository): %w\n%s", err, out)
	}
	return nil
}
