package discovery

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// read returns the whole body; whatever follows the JSON counts towards its size.
func read(r *http.Request) ([]byte, *apiError) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		return body, nil
	}
	if tooBig := (*http.MaxBytesError)(nil); errors.As(err, &tooBig) {
		return nil, tooLarge()
	}
	return nil, invalid("the body could not be read to its end")
}

// plain is for routes that take neither a body nor query parameters.
func (s *Server) plain(next handler) handler {
	return s.bodyless(func(x *exchange, r *http.Request) {
		if _, failure := parameters(r.URL.RawQuery, ""); failure != nil {
			x.fail(failure)
			return
		}
		next(x, r)
	})
}

// bodyless is for routes that take no body: one is read and ignored, but not beyond the limit.
func (s *Server) bodyless(next handler) handler {
	return func(x *exchange, r *http.Request) {
		if r.ContentLength != 0 {
			if _, err := read(r); err != nil {
				x.fail(err)
				return
			}
		}
		next(x, r)
	}
}

// decode reads the body of r into the struct that into points to. It is strict where encoding/json is not: member names
// count in their exact case, unknown and repeated ones are errors, so are invalid UTF-8, lone surrogates and anything
// after the object. Routes that take a body take no query parameters. It returns the body.
func decode(r *http.Request, into any) ([]byte, *apiError) {
	for _, encoding := range r.Header.Values("Content-Encoding") {
		if encoding != "" && !strings.EqualFold(encoding, "identity") {
			return nil, &apiError{http.StatusUnsupportedMediaType, "unsupported_encoding", "the body must not be encoded: Content-Encoding may only be identity"}
		}
	}
	body, failure := read(r)
	if failure != nil {
		return nil, failure
	}
	if _, failure = parameters(r.URL.RawQuery, ""); failure != nil {
		return nil, failure
	}
	if err := json.Unmarshal(body, into, json.RejectUnknownMembers(true)); err != nil {
		return nil, explain(err)
	}
	if jsontext.Value(body).Kind() != '{' {
		return nil, invalid("the body must be a JSON object")
	}
	return body, nil
}

// explain says where the body is wrong, in words that do not repeat what the client sent beyond a member's name.
func explain(err error) *apiError {
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic) && errors.Is(err, json.ErrUnknownName):
		return invalid("unknown member %s", where(semantic.JSONPointer))
	case errors.As(err, &semantic) && semantic.JSONPointer == "":
		return invalid("the body must be a JSON object")
	case errors.As(err, &semantic):
		return invalid("member %s has the wrong type", where(semantic.JSONPointer))
	case errors.As(err, &syntactic) && errors.Is(err, jsontext.ErrDuplicateName):
		return invalid("member %s appears twice", where(syntactic.JSONPointer))
	case errors.As(err, &syntactic):
		return invalid("the body is not valid JSON at byte %d", syntactic.ByteOffset)
	}
	return invalid("the body is not valid JSON")
}

// where quotes the place of a member in printable ASCII of bounded length.
func where(p jsontext.Pointer) string {
	const most = 80
	var b strings.Builder
	for _, c := range p {
		if b.Len() == most {
			b.WriteString("...")
			break
		}
		if c <= ' ' || c > '~' {
			c = '?'
		}
		b.WriteRune(c)
	}
	return b.String()
}
