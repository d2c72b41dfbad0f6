package gcpemulator

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
)

const maxPage = 500

// item is a resource that a list may show.
type item struct {
	scope, name, created string
	resource             func() proto.Message
}

// page is one page of a list.
type page struct {
	items []item
	next  *string
}

// cut returns the page of the items that the call asks for. A token is where the page before ended, so that what comes
// and goes meanwhile does not shift the rest.
func (c *call) cut(items []item) (page, error) {
	match, err := parseFilter(c.query.Get("filter"))
	if err != nil {
		return page{}, err
	}
	matching := func(i item) bool { return match(fieldsOf(i.resource())) }
	newestFirst := false
	switch order := c.query.Get("orderBy"); order {
	case "creationTimestamp desc":
		newestFirst = true
	case "", "name":
	default:
		return page{}, errInvalid("orderBy", order, "Only name and creationTimestamp desc are supported.")
	}
	size := maxPage
	if text := c.query.Get("maxResults"); text != "" {
		if size, err = strconv.Atoi(text); err != nil || size < 0 || size > maxPage {
			return page{}, errInvalid("maxResults", text, "Values must be between 0 and 500.")
		}
	}
	if size == 0 {
		size = maxPage
	}
	if c.opts.DensePages {
		items = slices.DeleteFunc(items, func(i item) bool { return !matching(i) })
	}
	place := func(i item) string { return i.scope + "/" + i.name }
	slices.SortFunc(items, func(a, b item) int {
		if newestFirst && a.created != b.created {
			return cmp.Compare(b.created, a.created)
		}
		return cmp.Compare(place(a), place(b))
	})
	start, skipped, err := c.resume(items, place)
	if err != nil {
		return page{}, err
	}
	if skipped < c.empty {
		return page{next: token(strconv.Itoa(skipped+1), "")}, nil
	}
	if c.looping && len(items) > 0 {
		start = 0
	}
	var p page
	p.items = items[start:]
	if len(p.items) > size {
		p.items = p.items[:size]
		p.next = token(strconv.Itoa(skipped), place(p.items[size-1]))
	}
	if c.looping {
		p.next = token(strconv.Itoa(c.empty), "loop")
	}
	p.items = slices.DeleteFunc(slices.Clone(p.items), func(i item) bool { return !matching(i) })
	return p, nil
}

// resume finds where the page begins, and how many empty pages have gone before it.
func (c *call) resume(items []item, place func(item) string) (start, skipped int, err error) {
	text := c.query.Get("pageToken")
	if text == "" {
		return 0, 0, nil
	}
	bad := errInvalid("pageToken", text, "The token is not one that this list has given out.")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	count, after, ok := strings.Cut(string(raw), "|")
	if err != nil || !ok {
		return 0, 0, bad
	}
	if skipped, err = strconv.Atoi(count); err != nil {
		return 0, 0, bad
	}
	if after == "" {
		return 0, skipped, nil
	}
	i := slices.IndexFunc(items, func(i item) bool { return place(i) == after })
	if i < 0 { // gone meanwhile
		i = slices.IndexFunc(items, func(i item) bool { return place(i) > after }) - 1
	}
	if i < -1 {
		return len(items), skipped, nil
	}
	return i + 1, skipped, nil
}

func token(count, after string) *string {
	text := base64.RawURLEncoding.EncodeToString([]byte(count + "|" + after))
	return &text
}
