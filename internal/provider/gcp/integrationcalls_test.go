//go:build integration

package gcp_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-logr/logr"
)

func (c *callCount) count(method, path string) {
	kind := method + " " + path
	if m := resource.FindStringSubmatch(path); m != nil {
		kind = method + " one " + m[2]
		if method == http.MethodGet && m[3] == "" {
			kind = method + " list of " + m[1] + m[2]
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[kind]++
}

func (c *callCount) of(kind string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[kind]
}

func (c *callCount) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out strings.Builder
	all := 0
	for _, kind := range slices.Sorted(maps.Keys(c.n)) {
		fmt.Fprintf(&out, "%4d %s\n", c.n[kind], kind)
		all += c.n[kind]
	}
	fmt.Fprintf(&out, "%4d in all", all)
	return out.String()
}

// callSink counts the requests that the wire log tells of.
type callSink struct {
	count  *callCount
	values []any
}

func (s *callSink) Init(logr.RuntimeInfo)        {}
func (s *callSink) Enabled(int) bool             { return true }
func (s *callSink) Error(error, string, ...any)  {}
func (s *callSink) WithName(string) logr.LogSink { return s }
func (s *callSink) WithValues(kv ...any) logr.LogSink {
	return &callSink{s.count, slices.Concat(s.values, kv)}
}

func (s *callSink) Info(_ int, msg string, kv ...any) {
	if msg != "request" {
		return
	}
	said := map[string]string{}
	for pair := range slices.Chunk(slices.Concat(s.values, kv), 2) {
		said[fmt.Sprint(pair[0])] = fmt.Sprint(pair[len(pair)-1])
	}
	s.count.count(said["method"], said["path"])
}
