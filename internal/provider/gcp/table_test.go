package gcp

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	compute "google.golang.org/api/compute/v1"
)

func TestTimesAreReadAsTheAPIWritesThem(t *testing.T) {
	at := time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2024-05-01T05:00:00.000-07:00":       at,
		"2024-05-01T12:00:00Z":                at,
		"2024-05-01T17:45:00.000+05:45":       at,
		"2024-05-01T05:00:00.123-07:00":       at.Add(123 * time.Millisecond),
		"2024-05-01T05:00:00.123456789-07:00": at.Add(123456789),
		"2024-05-01T05:00:00-07:00":           at,
		"":                                    {},
		"yesterday":                           {},
		"2024-05-01":                          {},
		"2024-05-01T05:00:00":                 {},
		"2024-02-30T05:00:00Z":                {},
		"1714564800":                          {},
	} {
		if got := createdAt(text); !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

func TestTheLaterOperationCounts(t *testing.T) {
	op := func(name, status, at string) *compute.Operation {
		return &compute.Operation{Name: name, Status: status, InsertTime: at}
	}
	for _, tc := range []struct {
		reason string
		ops    []*compute.Operation
		want   string
	}{
		{"the only one", []*compute.Operation{op("a", "DONE", "")}, "a"},
		{"listed first", []*compute.Operation{op("a", "DONE", "2024-05-02T00:00:00-07:00"), op("b", "DONE", "2024-05-01T00:00:00-07:00")}, "a"},
		{"listed last", []*compute.Operation{op("a", "DONE", "2024-05-01T00:00:00-07:00"), op("b", "DONE", "2024-05-02T00:00:00-07:00")}, "b"},
		// When summer time ends, the clock on the wall goes back.
		{"in the hour that comes twice", []*compute.Operation{op("a", "DONE", "2024-11-03T01:40:00-07:00"), op("b", "DONE", "2024-11-03T01:20:00-08:00")}, "b"},
		{"one that has not ended", []*compute.Operation{op("a", "RUNNING", "2024-05-01T00:00:00-07:00"), op("b", "DONE", "2024-05-02T00:00:00-07:00")}, "a"},
		{"one that has not begun", []*compute.Operation{op("a", "DONE", "2024-05-02T00:00:00-07:00"), op("b", "PENDING", "2024-05-01T00:00:00-07:00")}, "b"},
	} {
		var last *compute.Operation
		for _, o := range tc.ops {
			last = later(last, o)
		}
		if last.Name != tc.want {
			t.Errorf("%s: %s, want %s", tc.reason, last.Name, tc.want)
		}
	}
}

func TestScopesThatCouldNotBeRead(t *testing.T) {
	for _, tc := range []struct{ unreached, want []string }{
		{nil, nil},
		{[]string{"zones/us-central1-a"}, []string{"zones/us-central1-a"}},
		{[]string{"projects/p/zones/us-central1-a", "zones/us-central1-a"}, []string{"zones/us-central1-a"}},
		{[]string{"https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-b", "zones/us-central1-a"}, []string{"zones/us-central1-a", "zones/us-central1-b"}},
		// What is no zone may hold any.
		{[]string{"regions/us-central1"}, []string{"projects"}},
		{[]string{""}, []string{"projects"}},
		{[]string{"zones/"}, []string{"projects"}},
		{[]string{"zones/us-central1-a/more"}, []string{"projects"}},
		{[]string{everything, "zones/us-central1-a"}, []string{"projects", "zones/us-central1-a"}},
	} {
		if got := scopesOf(tc.unreached); !slices.Equal(got, tc.want) {
			t.Errorf("%q: %q, want %q", tc.unreached, got, tc.want)
		}
	}
}

func TestEveryPageIsAskedForOnce(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct {
		reason string
		next   func(n int, token string) (string, error)
		pages  int
		err    error
	}{
		{"one page", func(int, string) (string, error) { return "", nil }, 1, nil},
		{"three pages", func(n int, _ string) (string, error) { return []string{"a", "b", ""}[n], nil }, 3, nil},
		{"as many as there may be", func(n int, _ string) (string, error) {
			if n == maxPages-1 {
				return "", nil
			}
			return fmt.Sprint(n), nil
		}, maxPages, nil},
		{"no end", func(n int, _ string) (string, error) { return fmt.Sprint(n), nil }, maxPages, errEndless},
		{"its own token again", func(_ int, token string) (string, error) { return "a" + token[:0], nil }, 2, errEndless},
		{"an earlier token again", func(n int, _ string) (string, error) { return []string{"a", "b", "a"}[n], nil }, 3, errEndless},
		{"an error", func(n int, _ string) (string, error) { return "a", []error{nil, broken}[n] }, 2, broken},
	} {
		n := 0
		err := eachPage(func(token string) (string, error) {
			n++
			return tc.next(n-1, token)
		})
		if n != tc.pages || !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) {
			t.Errorf("%s: %d pages, %v, want %d, %v", tc.reason, n, err, tc.pages, tc.err)
		}
	}
}

func TestPortsOfLabels(t *testing.T) {
	for text, want := range map[string]int32{"1": 1, "65535": 65535, "0": 0, "65536": 0, "-1": 0, "": 0, "x": 0, "3128-3130": 0, "99999999999": 0} {
		if got := portOf(map[string]string{labelPort: text}); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}
