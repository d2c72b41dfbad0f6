package gcpemulator

import (
	"net/http"
	"regexp"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

var unknownField = regexp.MustCompile(`unknown field "([^"]*)"`)

// decode reads the body, strictly: the API refuses fields it does not know.
func (c *call) decode(into proto.Message) error {
	err := protojson.UnmarshalOptions{AllowPartial: true}.Unmarshal(c.body, into)
	if err == nil {
		return nil
	}
	message := "Invalid JSON payload received. " + err.Error()
	if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
		message = "Invalid JSON payload received. Unknown name \"" + m[1] + "\": Cannot find field."
	}
	return &apiError{
		code: http.StatusBadRequest, reason: "badRequest", message: message, status: "INVALID_ARGUMENT",
		details: []any{map[string]any{
			"@type":           "type.googleapis.com/google.rpc.BadRequest",
			"fieldViolations": []any{map[string]any{"description": message}},
		}},
	}
}

// flag reads a boolean of the query.
func (c *call) flag(name string) bool {
	v, err := strconv.ParseBool(c.query.Get(name))
	return err == nil && v
}
