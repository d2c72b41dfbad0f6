package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
)

// Client asks what it runs in.
type Client struct{ socket string }

// FromEnv returns the client of the cluster that this process runs in, or an error when it runs in none.
func FromEnv() (Client, error) {
	socket := os.Getenv(EnvSocket)
	if socket == "" {
		return Client{}, fmt.Errorf("%s is not set: this does not run inside of hack/cluster", EnvSocket)
	}
	return Client{socket}, nil
}

// At returns the client of what serves the socket.
func At(socket string) Client { return Client{socket} }

// Stop ends the component with SIGTERM and returns when it has ended.
func (c Client) Stop(ctx context.Context, component string) error {
	return c.ask(ctx, "stop", component)
}

// Kill ends the component with SIGKILL and returns when it has ended.
func (c Client) Kill(ctx context.Context, component string) error {
	return c.ask(ctx, "kill", component)
}

// Start starts a component that was ended and returns when it says that it is healthy.
func (c Client) Start(ctx context.Context, component string) error {
	return c.ask(ctx, "start", component)
}

// Pause keeps the component from going on, as a host does that hangs.
func (c Client) Pause(ctx context.Context, component string) error {
	return c.ask(ctx, "pause", component)
}

// Resume lets a paused component go on.
func (c Client) Resume(ctx context.Context, component string) error {
	return c.ask(ctx, "resume", component)
}

// Ask sends any verb and returns when it is done.
func (c Client) Ask(ctx context.Context, verb, component string) error {
	return c.ask(ctx, verb, component)
}

func (c Client) ask(ctx context.Context, verb, component string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.socket)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the answer has been read by then
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := fmt.Fprintf(conn, "%s %s\n", verb, component); err != nil {
		return err
	}
	answer := bufio.NewScanner(conn)
	answer.Buffer(make([]byte, 0, maxLine), maxLine)
	if !answer.Scan() {
		return fmt.Errorf("%s %s: no answer: %w", verb, component, errors.Join(answer.Err(), context.Cause(ctx)))
	}
	if text, failed := strings.CutPrefix(answer.Text(), "error: "); failed {
		return fmt.Errorf("%s %s: %s", verb, component, text)
	}
	return nil
}
