package gcpemulator

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// waitLimit is how long a wait method waits: https://cloud.google.com/compute/docs/reference/rest/v1/zoneOperations/wait
const waitLimit = 2 * time.Minute

type outcome struct {
	message proto.Message
	err     error
}

// serve takes one call from its reception to its answer.
func (e *Emulator) serve(w http.ResponseWriter, r *http.Request, name string, handle handler) {
	c, err := e.receive(w, r, name)
	if err != nil {
		return // the caller hung up while it sent
	}
	e.begin(c)
	if !c.pause(r.Context(), c.fault.Hold) {
		return
	}
	out := e.arrive(c, handle)
	if strings.HasSuffix(name, ".wait") {
		out = e.wait(r.Context(), c, handle, out)
	}
	if !c.pause(r.Context(), c.fault.HoldAnswer) {
		return
	}
	if c.fault.answers() || c.fault.ArriveAfter > 0 {
		c.fault.write(w, r)
		return
	}
	write(w, out)
}

// begin counts the call and decides what befalls it.
func (e *Emulator) begin(c *call) {
	target := c.resource
	if target == "" {
		var named struct{ Name string }
		_ = json.Unmarshal(c.body, &named) // bad bodies are answered where they are decoded
		target = named.Name
	}
	e.locked(func(now time.Time) {
		c.received, c.now = now, now
		e.calls[c.name]++
		for _, r := range slices.Clone(e.rules) {
			if r.match.matches(c, target) {
				c.fault.add(r.fault)
				e.used(r)
			}
		}
		if code, retryAfter := e.overLimit(c, target); code != 0 && !c.fault.answers() {
			c.fault.add(Fault{Status: code, Reason: "rateLimitExceeded", Domain: "usageLimits", RetryAfter: retryAfter, Message: tooFast})
		}
	})
	if c.fault.OnCall != nil {
		c.fault.OnCall()
	}
}

// pause waits until a hold is released; false means that the caller has gone.
func (c *call) pause(ctx context.Context, hold <-chan struct{}) bool {
	if hold == nil {
		return true
	}
	if c.fault.held != nil {
		c.fault.held()
	}
	select {
	case <-hold:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// arrive lets the call take effect, now, later or not at all.
func (e *Emulator) arrive(c *call, handle handler) (out outcome) {
	e.locked(func(now time.Time) {
		switch {
		case c.fault.ArriveAfter > 0:
			e.inFlight++
			e.after(now, c.fault.ArriveAfter, func(at time.Time) {
				e.inFlight--
				c.now = at
				_, _ = e.effect(c, handle) // nobody is left to hear it
			})
		case c.fault.answers() && !c.fault.Applied:
		default:
			c.now = now
			out.message, out.err = e.effect(c, handle)
		}
	})
	return out
}

func (e *Emulator) effect(c *call, handle handler) (proto.Message, error) {
	if c.project == nil && !strings.HasPrefix(c.name, "images.") { // public images lie in projects of others
		// https://github.com/hashicorp/terraform/issues/4031
		return nil, errNotFound("projects/" + c.projectID)
	}
	if c.zone != "" && c.name != "zones.get" {
		if err := c.checkZone(); err != nil {
			return nil, err
		}
	}
	return handle(c)
}

// checkZone refuses zones that do not exist, which is an invalid value and not a missing resource
// (https://github.com/inspec/inspec-gcp/issues/301), and zones that cannot be reached.
func (c *call) checkZone() error {
	if _, ok := c.opts.Zones[c.zone]; !ok {
		return errInvalid("zone", c.zone, "Unknown zone.")
	}
	if c.project.unreached[c.zone] != Reachable {
		return errUnreachable(c.zone)
	}
	return nil
}

// wait asks again until the operation has ended or the time for it has run out.
func (e *Emulator) wait(ctx context.Context, c *call, handle handler, out outcome) outcome {
	again := time.NewTicker(5 * time.Millisecond) // of real time: a fake clock does not wake anybody
	defer again.Stop()
	for {
		op, ok := out.message.(*computepb.Operation)
		if !ok || op.GetStatus() == computepb.Operation_DONE || c.now.Sub(c.received) >= waitLimit {
			return out
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return out
		}
		out = e.arrive(c, handle)
	}
}
