package discovery

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// apiContract is openapi.json, ready to hold answers and requests against.
type apiContract struct {
	doc      map[string]any
	compiler *jsonschema.Compiler
	// operations by method and path template, as in "GET /v1/proxies".
	operations map[string]*operation
	// What x-other-methods and x-other-paths say.
	otherMethods, otherPaths *operation
	// used are the components that something refers to.
	used map[string]bool
}

type operation struct {
	name      string
	secured   bool
	params    []parameter
	body      *jsonschema.Schema // nil when there is none
	responses map[int]*response
}

type parameter struct {
	name, in string
	required bool
	// spread: the schema's members are the parameters.
	spread bool
	schema *jsonschema.Schema
}

type response struct {
	headers map[string]headerRule
	// media types and their schemas; empty when there is no body.
	content map[string]*jsonschema.Schema
	// codes are the error codes that it may carry; none for a success.
	codes []string
}

type headerRule struct {
	required bool
	schema   *jsonschema.Schema
}

const contractURL = "https://contract.test/openapi.json"

var theContract = sync.OnceValues(func() (*apiContract, error) { return loadContract(contract) })

func loadContract(raw []byte) (c *apiContract, err error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c = &apiContract{
		doc: doc.(map[string]any), compiler: jsonschema.NewCompiler(), operations: map[string]*operation{}, used: map[string]bool{},
	}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(contractURL, doc); err != nil {
		return nil, err
	}
	// The walk below panics where the document is not shaped as OpenAPI wants it.
	defer func() {
		if v := recover(); v != nil {
			c, err = nil, fmt.Errorf("openapi.json: %v", v)
		}
	}()
	open := len(c.doc["security"].([]any)) == 0
	for path, item := range c.doc["paths"].(map[string]any) {
		at := pointer("", "paths", path)
		for method, op := range item.(map[string]any) {
			if method == "parameters" {
				continue
			}
			name := strings.ToUpper(method) + " " + path
			o := c.operation(pointer(at, method), name)
			if list, own := op.(map[string]any)["security"]; own {
				o.secured = len(list.([]any)) > 0
			} else {
				o.secured = !open
			}
			if shared, ok := item.(map[string]any)["parameters"]; ok {
				o.params = append(o.params, c.parameters(pointer(at, "parameters"), len(shared.([]any)))...)
			}
			c.operations[name] = o
		}
	}
	c.otherMethods = c.operation("/x-other-methods", "other methods")
	c.otherPaths = c.operation("/x-other-paths", "other paths")
	c.otherMethods.secured, c.otherPaths.secured = true, true
	return c, nil
}

// pointer appends tokens to the JSON pointer at.
func pointer(at string, tokens ...string) string {
	for _, t := range tokens {
		at += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(t)
	}
	return at
}

// node returns what at points to, behind its references, and where that really is.
func (c *apiContract) node(at string) (map[string]any, string) {
	var v any = c.doc
	for t := range strings.SplitSeq(strings.TrimPrefix(at, "/"), "/") {
		t = strings.NewReplacer("~1", "/", "~0", "~").Replace(t)
		switch in := v.(type) {
		case map[string]any:
			v = in[t]
		case []any:
			i, err := strconv.Atoi(t)
			if err != nil {
				panic(at)
			}
			v = in[i]
		}
	}
	n, ok := v.(map[string]any)
	if !ok {
		panic("nothing at " + at)
	}
	if ref, ok := n["$ref"].(string); ok && len(n) == 1 {
		target := strings.TrimPrefix(ref, "#")
		c.used[target] = true
		return c.node(target)
	}
	return n, at
}

func (c *apiContract) schema(at string) *jsonschema.Schema {
	_, at = c.node(at)
	s, err := c.compiler.Compile(contractURL + "#" + at)
	if err != nil {
		panic(err)
	}
	return s
}

func (c *apiContract) operation(at, name string) *operation {
	n, at := c.node(at)
	o := &operation{name: name, responses: map[int]*response{}}
	if list, ok := n["parameters"].([]any); ok {
		o.params = c.parameters(pointer(at, "parameters"), len(list))
	}
	if _, ok := n["requestBody"]; ok {
		o.body = c.schema(pointer(at, "requestBody", "content", "application/json", "schema"))
	}
	for status := range n["responses"].(map[string]any) {
		number, err := strconv.Atoi(status)
		if err != nil {
			panic(name + " answers " + status)
		}
		o.responses[number] = c.response(pointer(at, "responses", status))
	}
	return o
}

func (c *apiContract) parameters(at string, n int) []parameter {
	out := make([]parameter, n)
	for i := range out {
		p, at := c.node(pointer(at, strconv.Itoa(i)))
		required, _ := p["required"].(bool)
		spread, _ := p["explode"].(bool)
		out[i] = parameter{name: p["name"].(string), in: p["in"].(string), required: required, spread: spread, schema: c.schema(pointer(at, "schema"))}
	}
	return out
}

func (c *apiContract) response(at string) *response {
	n, at := c.node(at)
	r := &response{headers: map[string]headerRule{}, content: map[string]*jsonschema.Schema{}}
	if headers, ok := n["headers"].(map[string]any); ok {
		for name := range headers {
			h, at := c.node(pointer(at, "headers", name))
			required, _ := h["required"].(bool)
			r.headers[http.CanonicalHeaderKey(name)] = headerRule{required, c.schema(pointer(at, "schema"))}
		}
	}
	if content, ok := n["content"].(map[string]any); ok {
		for media := range content {
			schema := pointer(at, "content", media, "schema")
			r.content[media] = c.schema(schema)
			r.codes = c.codes(schema)
		}
	}
	return r
}

// codes returns the error codes that the schema at allows.
func (c *apiContract) codes(at string) (codes []string) {
	n, _ := c.node(at)
	properties, _ := n["properties"].(map[string]any)
	e, _ := properties["error"].(map[string]any)
	if code, ok := e["const"].(string); ok {
		return []string{code}
	}
	list, _ := e["enum"].([]any)
	for _, code := range list {
		codes = append(codes, code.(string))
	}
	return codes
}

// everyAnswer lists operation, status and code of all answers that the contract knows; a success has no code.
func (c *apiContract) everyAnswer() []string {
	var out []string
	for _, o := range append(slices.Collect(maps.Values(c.operations)), c.otherMethods, c.otherPaths) {
		for status, r := range o.responses {
			if len(r.codes) == 0 {
				out = append(out, answerName(o, status, ""))
			}
			for _, code := range r.codes {
				out = append(out, answerName(o, status, code))
			}
		}
	}
	slices.Sort(out)
	return out
}

func answerName(o *operation, status int, code string) string {
	return strings.TrimSpace(fmt.Sprintf("%s: %d %s", o.name, status, code))
}
