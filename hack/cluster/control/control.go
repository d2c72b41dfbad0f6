// Package control lets a command that runs inside a test cluster, or against a test hypervisor, stop, kill, start, pause and resume its
// components.
//
// The protocol is lines over a unix socket, one answer for each request in order:
//
//	stop|kill|start|pause|resume COMPONENT
//	ok | error: TEXT
package control

import (
	"context"
	"fmt"
	"strings"
)

// EnvSocket names the variable in which the command finds the socket.
const EnvSocket = "E2E_CLUSTER_CONTROL"

// Component is what can be ended and started again.
type Component interface {
	// Stop sends SIGTERM and returns when the process has ended. One that does not run is an error.
	Stop(context.Context) error
	// Kill is Stop with SIGKILL.
	Kill(context.Context) error
	// Pause keeps the process from going on (SIGSTOP), Resume lets it. One that does not run is an error.
	Pause(context.Context) error
	Resume(context.Context) error
	// Start returns when the component says that it is healthy. One that runs is an error.
	Start(context.Context) error
}

// maxLine bounds a request and an answer.
const maxLine = 4096

// serveLine does what one request says and returns the answer.
func serveLine(ctx context.Context, line string, components map[string]Component) string {
	verb, name, ok := strings.Cut(strings.TrimSpace(line), " ")
	if !ok {
		return fmt.Sprintf("error: want VERB COMPONENT, got %q", line)
	}
	c, ok := components[name]
	if !ok {
		return fmt.Sprintf("error: no component %q", name)
	}
	var do func(context.Context) error
	switch verb {
	case "stop":
		do = c.Stop
	case "kill":
		do = c.Kill
	case "start":
		do = c.Start
	case "pause":
		do = c.Pause
	case "resume":
		do = c.Resume
	default:
		return fmt.Sprintf("error: no verb %q: stop, kill, start, pause and resume are", verb)
	}
	if err := do(ctx); err != nil {
		return "error: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return "ok"
}
