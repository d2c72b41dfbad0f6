package assets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// goCommand returns a go command that runs in dir with the caller's environment.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	return cmd
}

func goOutput(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := goCommand(ctx, dir, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
