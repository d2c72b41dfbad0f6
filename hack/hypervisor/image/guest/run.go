package guest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// tailLines is how much of a failed command's output is shown.
const tailLines = 30

// run runs a command, with its output to progress, and returns the end of that in its error.
func run(ctx context.Context, progress io.Writer, command ...string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var out bytes.Buffer
	w := io.MultiWriter(&out, progress)
	cmd.Stdout, cmd.Stderr = w, w
	// Nothing may go on writing to a folder that the next build takes for its own.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dieWithUs(cmd)
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		return fmt.Errorf("%s: %w\n%s", command[0], err, strings.Join(lines[max(0, len(lines)-tailLines):], "\n"))
	}
	return nil
}

// ticker tells the last line that is information, at most every few seconds.
type ticker struct {
	to          io.Writer
	began, told time.Time
	rest        string
	last        string
}

const tick = 5 * time.Second

func newTicker(to io.Writer, began time.Time) *ticker {
	return &ticker{to: to, began: began, told: began}
}

func (t *ticker) Write(data []byte) (int, error) {
	t.rest += string(data)
	for {
		end := strings.IndexAny(t.rest, "\r\n")
		if end < 0 {
			break
		}
		if text := strings.TrimSpace(t.rest[:end]); text != "" {
			t.last = strings.TrimPrefix(text, "I: ")
		}
		t.rest = t.rest[end+1:]
	}
	if now := time.Now(); t.last != "" && now.Sub(t.told) >= tick {
		t.told = now
		fmt.Fprintf(t.to, "guest: %3.0f s  %s\n", now.Sub(t.began).Seconds(), t.last)
	}
	return len(data), nil
}
