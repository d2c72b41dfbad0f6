package gcpemulator

import (
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// listOperations serves https://cloud.google.com/compute/docs/reference/rest/v1/zoneOperations/list and its global
// counterpart. Operations are not subject to a lag.
func listOperations(c *call) (proto.Message, error) {
	var items []item
	for _, op := range c.project.operations {
		if op.scope == c.scoped() {
			items = append(items, item{
				op.scope, op.pb.GetName(), op.pb.GetInsertTime(), func() proto.Message { return op.show(c.now) },
			})
		}
	}
	p, err := c.cut(items)
	if err != nil {
		return nil, err
	}
	return &computepb.OperationList{
		Kind: proto.String("compute#operationList"), NextPageToken: p.next, Items: resources[*computepb.Operation](p.items),
		SelfLink: proto.String(c.project.link(c.scoped(), "operations")),
	}, nil
}
