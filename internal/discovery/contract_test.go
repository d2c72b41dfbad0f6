package discovery

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func mustContract(t *testing.T) *apiContract {
	t.Helper()
	c, err := theContract()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestContractIsServed(t *testing.T) {
	for name, leading := range map[string]bool{"leader": true, "standby": false} {
		f := newFixture(t, func(o *Options) { o.Leading = func() bool { return leading } })
		if a := f.want(t, http.StatusOK, http.MethodGet, "/openapi.json", ""); a.text != string(contract) {
			t.Errorf("%s: something else: %.100s", name, a.text)
		}
		f.want(t, http.StatusOK, http.MethodHead, "/openapi.json", "")
		f.want(t, http.StatusMethodNotAllowed, http.MethodPost, "/openapi.json", "{}")
		if a := f.raw(t, []byte("GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: without a token: %d", name, a.StatusCode)
		}
	}
}

// Every reference leads somewhere (loading fails otherwise), nothing lies about unused, names are unique, and no example
// departs from the schema beside it.
func TestContractIsSound(t *testing.T) {
	c := mustContract(t)
	examples, ids := 0, map[string]bool{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch in := v.(type) {
		case []any:
			for i, e := range in {
				walk(pointer(at, strconv.Itoa(i)), e)
			}
		case map[string]any:
			if ref, ok := in["$ref"].(string); ok {
				c.used[strings.TrimPrefix(ref, "#")] = true
			}
			if id, ok := in["operationId"].(string); ok {
				if ids[id] {
					t.Errorf("the operationId %s comes twice", id)
				}
				ids[id] = true
			}
			if example, ok := in["example"]; ok {
				examples++
				if err := c.schema(pointer(at, "schema")).Validate(example); err != nil {
					t.Errorf("example at %s: %v", at, err)
				}
			}
			for k, e := range in {
				if k != "example" {
					walk(pointer(at, k), e)
				}
			}
		}
	}
	walk("", c.doc)
	if examples < 8 {
		t.Errorf("only %d examples were found", examples)
	}
	for kind, components := range c.doc["components"].(map[string]any) {
		for name := range components.(map[string]any) {
			if kind != "securitySchemes" && !c.used[pointer("", "components", kind, name)] {
				t.Errorf("nothing refers to the component %s/%s", kind, name)
			}
		}
	}
}

func TestContractKnowsEveryRouteAndNoOther(t *testing.T) {
	f := newFixture(t)
	var code []string
	for path, m := range f.server.table() {
		for method := range m {
			code = append(code, method+" "+path)
		}
	}
	slices.Sort(code)
	if documented := slices.Sorted(maps.Keys(mustContract(t).operations)); !slices.Equal(code, documented) {
		t.Errorf("the code has\n%s\nthe contract\n%s", strings.Join(code, "\n"), strings.Join(documented, "\n"))
	}
}

func TestContractKnowsEveryCodeAndNoOther(t *testing.T) {
	documented := map[string]bool{}
	for _, line := range mustContract(t).everyAnswer() {
		if _, code, ok := strings.Cut(line, ": "); ok && strings.Contains(code, " ") {
			documented[code[strings.Index(code, " ")+1:]] = true
		}
	}
	code := codesInSource(t)
	if !maps.Equal(code, documented) {
		t.Errorf("the code answers with\n%v\nthe contract with\n%v", slices.Sorted(maps.Keys(code)), slices.Sorted(maps.Keys(documented)))
	}
}

// codesInSource reads the codes off the literals that answers are made of.
func codesInSource(t *testing.T) map[string]bool {
	t.Helper()
	codes := map[string]bool{}
	files, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	add := func(e ast.Expr) {
		switch e := e.(type) {
		case *ast.BasicLit:
			code, err := strconv.Unquote(e.Value)
			if err != nil {
				t.Fatal(err)
			}
			codes[code] = true
		case *ast.SelectorExpr: // taken from another error
		default:
			t.Errorf("an error code that is not written as a literal: %v", e)
		}
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			name, _ := literal.Type.(*ast.Ident)
			for i, e := range literal.Elts {
				pair, named := e.(*ast.KeyValueExpr)
				switch {
				case name == nil:
				case named:
					key, _ := pair.Key.(*ast.Ident)
					if key != nil && (name.Name == "errorBody" && key.Name == "Error" || name.Name == "apiError" && key.Name == "code") {
						add(pair.Value)
					}
				case name.Name == "apiError" && i == 1, name.Name == "errorBody" && i == 0:
					add(e)
				}
			}
			return true
		})
	}
	return codes
}

// A check that lets everything pass would make every test of this package believe in the contract.
func TestContractCheckRefusesDepartures(t *testing.T) {
	f := newFixture(t)
	f.put("a")
	c := mustContract(t)
	answers := map[string]answer{
		"POST /v1/leases":     f.want(t, http.StatusCreated, http.MethodPost, "/v1/leases", `{}`),
		"GET /v1/proxies":     f.want(t, http.StatusOK, http.MethodGet, "/v1/proxies", ""),
		"DELETE /v1/leases/x": f.want(t, http.StatusNoContent, http.MethodDelete, "/v1/leases/x", ""),
		"GET /v1/leases/x":    f.want(t, http.StatusNotFound, http.MethodGet, "/v1/leases/x", ""),
		"PUT /v1/leases":      f.want(t, http.StatusMethodNotAllowed, http.MethodPut, "/v1/leases", ""),
		"GET /healthz":        f.want(t, http.StatusOK, http.MethodGet, "/healthz", ""),
		"GET /v1/cooldowns":   f.raw(t, []byte("GET /v1/proxies HTTP/1.1\r\nHost: x\r\n\r\n")),
	}
	for _, tc := range []struct {
		reason, request string
		change          func(*answer)
	}{
		{"unknown status", "POST /v1/leases", func(a *answer) { a.StatusCode = http.StatusOK }},
		{"status of another operation", "GET /v1/leases/x", func(a *answer) { a.StatusCode = http.StatusConflict }},
		{"a member is missing", "POST /v1/leases", func(a *answer) { a.text = strings.Replace(a.text, `"epoch"`, `"era"`, 1) }},
		{"a member too many", "POST /v1/leases", func(a *answer) { a.text = strings.Replace(a.text, `{"leaseID"`, `{"x":1,"leaseID"`, 1) }},
		{"a member of the proxy too many", "GET /v1/proxies", func(a *answer) {
			a.text = strings.Replace(a.text, `"name"`, `"auth":{"username":"u","password":"p"},"name"`, 1)
		}},
		{"an address without a port", "GET /v1/proxies", func(a *answer) { a.text = strings.Replace(a.text, `"port":3128,`, "", 1) }},
		{"another type", "POST /v1/leases", func(a *answer) { a.text = strings.Replace(a.text, `"ttlSeconds":300`, `"ttlSeconds":"300"`, 1) }},
		{"another form of time", "POST /v1/leases", func(a *answer) { a.text = strings.Replace(a.text, `.000Z"`, `.000+00:00"`, 1) }},
		{"another code", "GET /v1/leases/x", func(a *answer) { a.text = strings.Replace(a.text, "unknown_lease", "not_found", 1) }},
		{"no message", "GET /v1/leases/x", func(a *answer) { a.text = `{"error":"unknown_lease"}` }},
		{"no JSON", "GET /v1/leases/x", func(a *answer) { a.text = "unknown_lease" }},
		{"text behind the JSON", "GET /v1/leases/x", func(a *answer) { a.text += "{}" }},
		{"another media type", "GET /v1/leases/x", func(a *answer) { a.Header.Set("Content-Type", "text/plain") }},
		{"a body where there is none", "DELETE /v1/leases/x", func(a *answer) { a.text = "{}" }},
		{"no Allow", "PUT /v1/leases", func(a *answer) { a.Header.Del("Allow") }},
		{"no WWW-Authenticate", "GET /v1/cooldowns", func(a *answer) { a.Header.Del("WWW-Authenticate") }},
		{"another challenge", "GET /v1/cooldowns", func(a *answer) { a.Header.Set("WWW-Authenticate", "Basic") }},
		{"an answer that may be stored", "GET /v1/proxies", func(a *answer) { a.Header.Set("Cache-Control", "max-age=60") }},
		{"an unknown header", "GET /v1/proxies", func(a *answer) { a.Header.Set("Retry-After", "1") }},
		{"another text", "GET /healthz", func(a *answer) { a.text = "fine" }},
		{"401 where everybody may", "GET /healthz", func(a *answer) { *a = answers["GET /v1/cooldowns"] }},
	} {
		method, path, _ := strings.Cut(tc.request, " ")
		u := &url.URL{Path: path}
		a := answers[tc.request]
		if err := c.check(method, u, a); err != nil {
			t.Errorf("%s: %v", tc.request, err)
		}
		head := *a.Response
		head.Header = a.Header.Clone()
		changed := answer{&head, a.text}
		if tc.change(&changed); changed.text == a.text && changed.StatusCode == a.StatusCode && fmt.Sprint(changed.Header) == fmt.Sprint(a.Header) {
			t.Errorf("%s: nothing was changed", tc.reason)
		}
		if err := c.check(method, u, changed); err == nil {
			t.Errorf("%s: passes", tc.reason)
		}
	}
}
