package gcpemulator

import (
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
)

// request is a change as it is remembered under its requestId.
type request struct {
	call, zone, resource string
	body                 proto.Message
	op                   *operation
	first                time.Time
}

// remembered looks the call's requestId up: a request seen before is answered with its operation as that is by now, ended
// and failed ones included, and has no further effect. The reference says that much
// (https://cloud.google.com/compute/docs/reference/rest/v1/instances/insert), and that the ID must be a UUID other than
// zero; https://github.com/piercefreeman/cloud-gpu-reliability/pull/5 says that every repetition gets the same operation.
// What happens if the request differs is not documented for Compute Engine; https://google.aip.dev/155 is why it is
// refused.
func (c *call) remembered(body proto.Message) (*operation, error) {
	token := c.query.Get("requestId")
	if token == "" {
		return nil, nil
	}
	if parsed, err := uuid.Parse(token); err != nil || parsed == uuid.Nil || len(token) != 36 {
		return nil, errInvalid("requestId", token, "Must be a valid UUID.")
	}
	r := c.project.requests[token]
	if r == nil {
		return nil, nil
	}
	if r.call != c.name || r.zone != c.zone || r.resource != c.resource || !proto.Equal(r.body, body) {
		return nil, errInvalid("requestId", token, "The request ID has been used for a request with other parameters.")
	}
	return r.op, nil
}

// remember keeps the operation under the call's requestId. Requests refused at once are not remembered.
func (c *call) remember(body proto.Message, op *operation) {
	if token := c.query.Get("requestId"); token != "" && c.opts.RequestMemory > 0 {
		c.project.requests[token] = &request{
			call: c.name, zone: c.zone, resource: c.resource, body: proto.Clone(body), op: op, first: c.now,
		}
	}
}

// forget drops requests and ended operations whose time has passed.
func (p *project) forget(now time.Time, opts Options) {
	for token, r := range p.requests {
		if now.Sub(r.first) >= opts.RequestMemory {
			delete(p.requests, token)
		}
	}
	for name, op := range p.operations {
		if !op.ended.IsZero() && now.Sub(op.ended) >= opts.OperationMemory {
			delete(p.operations, name)
		}
	}
}
