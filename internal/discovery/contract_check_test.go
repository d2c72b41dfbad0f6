package discovery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// find returns the operation that a request is for, and the values of its path's variables.
func (c *apiContract) find(method string, u *url.URL) (*operation, map[string]string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	known := false
	for name, o := range c.operations {
		has, template, _ := strings.Cut(name, " ")
		values, ok := matchPath(template, u)
		if ok && has == method {
			return o, values
		}
		known = known || ok
	}
	if known {
		return c.otherMethods, nil
	}
	return c.otherPaths, nil
}

func matchPath(template string, u *url.URL) (map[string]string, bool) {
	if path.Clean(u.Path) != u.Path {
		return nil, false
	}
	want, got := strings.Split(template, "/"), strings.Split(u.EscapedPath(), "/")
	if len(want) != len(got) {
		return nil, false
	}
	values := map[string]string{}
	for i, w := range want {
		text, err := url.PathUnescape(got[i])
		if name, variable := strings.CutPrefix(w, "{"); variable && text != "" && err == nil {
			values[strings.TrimSuffix(name, "}")] = text
		} else if w != text {
			return nil, false
		}
	}
	return values, true
}

// checkContract fails the test when the contract does not know the answer a to such a request.
func checkContract(t *testing.T, method string, u *url.URL, a answer) {
	t.Helper()
	c, err := theContract()
	if err != nil {
		t.Error(err)
		return
	}
	if err := c.check(method, u, a); err != nil {
		t.Errorf("against the contract: %s %.200s: %d: %v\n%.500s", method, u, a.StatusCode, err, a.text)
	}
}

// ofLibrary reports whether net/http gave the answer by itself; the contract says that it does not speak of those.
func (a answer) ofLibrary() bool {
	own := []int{http.StatusBadRequest, http.StatusRequestHeaderFieldsTooLarge, http.StatusNotImplemented, http.StatusHTTPVersionNotSupported}
	return slices.Contains(own, a.StatusCode) && a.Close && strings.HasPrefix(a.Header.Get("Content-Type"), "text/plain") &&
		strings.HasPrefix(a.text, fmt.Sprintf("%d %s", a.StatusCode, http.StatusText(a.StatusCode)))
}

func (c *apiContract) check(method string, u *url.URL, a answer) error {
	if a.ofLibrary() {
		return nil
	}
	o, _ := c.find(method, u)
	r := o.responses[a.StatusCode]
	if r == nil {
		return fmt.Errorf("%s has no such status", o.name)
	}
	if a.StatusCode == http.StatusUnauthorized && !o.secured {
		return errors.New("the operation is open to everybody")
	}
	if err := r.checkHeaders(a.Header); err != nil {
		return err
	}
	return r.checkBody(method, a)
}

// ofTransport belong to every answer over HTTP/1.1; all others have to be in the contract.
var ofTransport = []string{"Date", "Content-Type", "Content-Length", "Connection", "Transfer-Encoding"}

func (r *response) checkHeaders(h http.Header) error {
	for name, rule := range r.headers {
		values := h.Values(name)
		switch {
		case len(values) > 1:
			return fmt.Errorf("%s comes %d times", name, len(values))
		case len(values) == 1:
			if err := rule.schema.Validate(typed(rule.schema, values[0])); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		case rule.required:
			return fmt.Errorf("%s is missing", name)
		}
	}
	for name := range h {
		if _, ok := r.headers[name]; !ok && !slices.Contains(ofTransport, name) {
			return fmt.Errorf("the header %s is unknown", name)
		}
	}
	return nil
}

func (r *response) checkBody(method string, a answer) error {
	if len(r.content) == 0 {
		if a.text != "" || a.Header.Get("Content-Type") != "" {
			return errors.New("it has a body or the type of one")
		}
		return nil
	}
	media, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("Content-Type: %w", err)
	}
	schema := r.content[media]
	if schema == nil {
		return fmt.Errorf("no body is of the type %s", media)
	}
	if method == http.MethodHead {
		if a.text != "" {
			return errors.New("HEAD is answered with a body")
		}
		return nil
	}
	var v any = a.text
	if media == "application/json" {
		if v, err = jsonschema.UnmarshalJSON(strings.NewReader(a.text)); err != nil {
			return err
		}
	}
	return schema.Validate(v)
}

// typed gives text the type that s wants, if it is written as one.
func typed(s *jsonschema.Schema, text string) any {
	if s.Types == nil {
		return text
	}
	for _, name := range s.Types.ToStrings() {
		if _, err := strconv.ParseInt(text, 10, 64); name == "integer" && (err == nil || errors.Is(err, strconv.ErrRange)) {
			return json.Number(text)
		}
		if name == "boolean" && (text == "true" || text == "false") {
			return text == "true"
		}
	}
	return text
}

// checkRequest says how a request, without its Authorization, departs from the contract.
func (c *apiContract) checkRequest(r *http.Request, body []byte) error {
	o, inPath := c.find(r.Method, r.URL)
	if o == c.otherMethods || o == c.otherPaths {
		return fmt.Errorf("there is no operation %s %s", r.Method, r.URL.Path)
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	for _, p := range o.params {
		var values []string
		switch p.in {
		case "path":
			values = []string{inPath[p.name]}
		case "header":
			values = r.Header.Values(p.name)
		case "query":
			if p.spread {
				continue // after the others have taken theirs
			}
			values = query[p.name]
			delete(query, p.name)
		}
		if len(values) > 1 || len(values) == 0 && p.required {
			return fmt.Errorf("%s comes %d times", p.name, len(values))
		}
		for _, text := range values {
			if err := p.schema.Validate(typed(p.schema, text)); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	if err := o.checkRest(query); err != nil || o.body == nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return o.body.Validate(v)
}

// checkRest checks the query parameters that go by no fixed name.
func (o *operation) checkRest(query url.Values) error {
	if len(query) == 0 {
		return nil
	}
	members := map[string]any{}
	for name, values := range query {
		if len(values) > 1 {
			return fmt.Errorf("%s comes %d times", name, len(values))
		}
		members[name] = values[0]
	}
	i := slices.IndexFunc(o.params, func(p parameter) bool { return p.spread })
	if i < 0 {
		return fmt.Errorf("unknown parameters %v", slices.Sorted(maps.Keys(members)))
	}
	return o.params[i].schema.Validate(members)
}

// checkedTransport holds every answer that passes through it against the contract.
type checkedTransport struct {
	t    *testing.T
	next http.RoundTripper
}

func (c checkedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	checkContract(c.t, req.Method, req.URL, answer{resp, string(text)})
	return resp, nil
}
