package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

const (
	defaultPageSize = 250
	maxPageSize     = 1000
	maxContinue     = 1024
)

// ListOptions narrow a list down.
type ListOptions struct {
	// Selector holds attributes that a proxy must have: at most 32, shaped like Kubernetes labels.
	Selector map[string]string
	// Namespace restricts to one; empty for all that the token may see.
	Namespace string
	// Healthy, when set, restricts to proxies that are, or are not, healthy.
	Healthy *bool
	// PageSize is how many are fetched at one time: 1 to 1000, 250 when 0.
	PageSize int
}

type wireList struct {
	Proxies  []wireProxy `json:"proxies"`
	Count    *int        `json:"count"`
	Continue string      `json:"continue"`
}

// Proxies returns the proxies that match, sorted by namespace and name, without credentials. It fetches page after page
// while the caller iterates, and blocks for that; each page is true as of its own time, and none holds a proxy that an
// earlier one held. The first error ends the iteration; it comes with a zero Proxy. Errors: one that names the option,
// *APIError, ErrBadAnswer, ctx's.
func (c *Client) Proxies(ctx context.Context, o ListOptions) iter.Seq2[Proxy, error] {
	return func(yield func(Proxy, error) bool) {
		size := o.PageSize
		if size == 0 {
			size = defaultPageSize
		}
		if size < 1 || size > maxPageSize {
			yield(Proxy{}, fmt.Errorf("client: PageSize %d is not within 1 and %d", o.PageSize, maxPageSize))
			return
		}
		var last *Proxy
		for next := ""; ; {
			page, token, err := c.page(ctx, o, size, next, last)
			if errors.Is(err, errAnswerTooLarge) && size > 1 {
				size /= 2
				continue
			}
			if err != nil {
				yield(Proxy{}, err)
				return
			}
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
			}
			if token == "" {
				return
			}
			next, last = token, &page[len(page)-1]
		}
	}
}

// page fetches the page under token; what it holds must come after last.
func (c *Client) page(ctx context.Context, o ListOptions, size int, token string, last *Proxy) ([]Proxy, string, error) {
	a, err := c.do(ctx, call{method: http.MethodGet, path: "/v1/proxies", query: o.query(size, token)}, http.StatusOK)
	if err != nil {
		return nil, "", err
	}
	var w wireList
	if err := decode(a.body, &w); err != nil {
		return nil, "", err
	}
	switch {
	case w.Count == nil || *w.Count != len(w.Proxies):
		return nil, "", wrong("count", "is not that of proxies")
	case len(w.Continue) > maxContinue:
		return nil, "", wrong("continue", "is too long")
	case w.Continue != "" && len(w.Proxies) == 0:
		return nil, "", wrong("continue", "follows an empty page")
	}
	out := make([]Proxy, len(w.Proxies))
	for i := range w.Proxies {
		at := fmt.Sprintf("proxies[%d].", i)
		if out[i], err = w.Proxies[i].proxy(at); err != nil {
			return nil, "", err
		}
		if last != nil && !out[i].after(last) {
			// Without this a server could go on for ever.
			return nil, "", wrong(at+"name", "is out of order")
		}
		last = &out[i]
	}
	return out, w.Continue, nil
}

// after reports whether p stands after q in lists.
func (p *Proxy) after(q *Proxy) bool {
	if p.Namespace != q.Namespace {
		return p.Namespace > q.Namespace
	}
	return p.Name > q.Name
}

func (o *ListOptions) query(size int, token string) url.Values {
	q := url.Values{"limit": {strconv.Itoa(size)}}
	for k, v := range o.Selector {
		q.Set("attr."+k, v)
	}
	if o.Namespace != "" {
		q.Set("namespace", o.Namespace)
	}
	if o.Healthy != nil {
		q.Set("healthy", strconv.FormatBool(*o.Healthy))
	}
	if token != "" {
		q.Set("continue", token)
	}
	return q
}

// Proxy returns one proxy, without credentials. It blocks for the request and its retries (10 s). Errors: ErrNotFound, one
// that names the argument, *APIError, ErrBadAnswer, ctx's.
func (c *Client) Proxy(ctx context.Context, namespace, name string) (Proxy, error) {
	if err := objectName(namespace, name); err != nil {
		return Proxy{}, err
	}
	a, err := c.do(ctx, call{
		method: http.MethodGet, path: "/v1/proxies/" + url.PathEscape(namespace) + "/" + url.PathEscape(name),
	}, http.StatusOK)
	if err != nil {
		return Proxy{}, err
	}
	var w wireProxy
	if err := decode(a.body, &w); err != nil {
		return Proxy{}, err
	}
	p, err := w.proxy("")
	if err == nil && (p.Namespace != namespace || p.Name != name) {
		return Proxy{}, wrong("name", "is that of another proxy")
	}
	return p, err
}

// ClearCooldowns ends the rest of one proxy for target, a host name as CanonicalTarget takes it; with an empty target it ends
// all of its rests. It blocks for the request and its retries (10 s). Errors: ErrNotFound, one that names the argument,
// *APIError, ctx's.
func (c *Client) ClearCooldowns(ctx context.Context, namespace, name, target string) error {
	if err := objectName(namespace, name); err != nil {
		return err
	}
	q := url.Values{"proxy": {namespace + "/" + name}}
	if target != "" {
		host, err := CanonicalTarget(target)
		if err != nil {
			return err
		}
		q.Set("target", host)
	}
	_, err := c.do(ctx, call{method: http.MethodDelete, path: "/v1/cooldowns", query: q}, http.StatusNoContent)
	return err
}

// objectName refuses what would lead to another path.
func objectName(namespace, name string) error {
	for _, s := range []string{namespace, name} {
		if s == "" || s == "." || s == ".." || strings.Contains(s, "/") {
			return fmt.Errorf("client: %q is not the name of a namespace or proxy", s)
		}
	}
	return nil
}
