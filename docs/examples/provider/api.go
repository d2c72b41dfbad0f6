package boxes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// The service's API:
//
//	PUT    /v1/racks/{rack}/boxes/{name}             201, or 412 name_taken; a box shows at once, and is up later
//	GET    /v1/racks/{rack}/boxes/{name}             200, or 404: no_box or no_rack
//	DELETE /v1/racks/{rack}/boxes/{name}?serial=…    202, 404, or 409 other_serial
//	GET    /v1/racks/{rack}/boxes?after=…            200 with a page
//
// Errors are {"code":…}; 429 comes with Retry-After.
const (
	maxAnswer = 8 << 20
	maxToken  = 4 << 10
)

type api struct {
	endpoint, tokenFile string
	client              *http.Client
}

func newAPI(c Config) api {
	return api{strings.TrimSuffix(c.Endpoint, "/"), c.TokenFile, &http.Client{
		// A token is for the service that it was made for.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute},
	}}
}

// order is what a box is made from.
type order struct {
	Tags     map[string]string `json:"tags"`
	Port     int32             `json:"port"`
	Username string            `json:"username"`
	Password string            `json:"password"`
}

// box is what the service shows of one: never its password.
type box struct {
	Name    string            `json:"name"`
	Serial  string            `json:"serial"`
	Status  string            `json:"status"`
	Reason  string            `json:"reason,omitempty"`
	Tags    map[string]string `json:"tags"`
	IP      string            `json:"ip"`
	Exit    string            `json:"exit"`
	Port    int32             `json:"port"`
	Created string            `json:"created"`
}

type page struct {
	Boxes []box  `json:"boxes"`
	Next  string `json:"next,omitempty"`
}

func (a api) create(ctx context.Context, at place, o order) error {
	return a.call(ctx, http.MethodPut, path(at), o, nil)
}

func (a api) get(ctx context.Context, at place) (b box, err error) {
	err = a.call(ctx, http.MethodGet, path(at), nil, &b)
	return b, err
}

func (a api) remove(ctx context.Context, at place, serial string) error {
	return a.call(ctx, http.MethodDelete, path(at)+"?serial="+url.QueryEscape(serial), nil, nil)
}

func (a api) list(ctx context.Context, rack, after string) (p page, err error) {
	err = a.call(ctx, http.MethodGet, "/v1/racks/"+rack+"/boxes?after="+url.QueryEscape(after), nil, &p)
	return p, err
}

func path(at place) string { return "/v1/" + at.String() }

// call sends one request, once: whoever calls a provider knows when to try again.
func (a api) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.endpoint+path, body)
	if err != nil {
		return err
	}
	token, err := a.token()
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := a.client.Do(req)
	if err != nil {
		return fmt.Errorf("the service cannot be reached: %w", errors.Unwrap(err)) // without the URL around it
	}
	defer res.Body.Close() //nolint:errcheck // only read
	answer := json.NewDecoder(io.LimitReader(res.Body, maxAnswer))
	if res.StatusCode < 300 {
		if out == nil {
			return nil
		}
		if err := answer.Decode(out); err != nil {
			return fmt.Errorf("the service's answer cannot be read: %w", err)
		}
		return nil
	}
	failed := struct{ Code string }{}
	if err := answer.Decode(&failed); err != nil || failed.Code == "" {
		failed.Code = "status " + strconv.Itoa(res.StatusCode) // of something in between
	}
	wait, _ := strconv.Atoi(res.Header.Get("Retry-After"))
	return codeError{code: failed.Code, retryAfter: time.Duration(wait) * time.Second}
}

// token is read for each call, so that another one takes no restart.
func (a api) token() (string, error) {
	f, err := os.Open(a.tokenFile)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(f, maxToken))
	return strings.TrimSpace(string(data)), err
}
