//go:build linux

package local_test

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

func TestConforms(t *testing.T) {
	t.Parallel()
	seen := &skips{T: providertest.Go(t), all: new([]string)}
	providertest.Run(seen, conformanceEnv)
	want := []string{
		// An instance exists when it listens: there is no booting one to be held.
		"create-returns-once-accepted", "delete-works-before-running",
		// The look and the act are one critical section under the folder's lock: nobody can come in between.
		"create-judges-who-was-faster",
		// A creation fails inside its call or not at all.
		"late-failure-frees-the-next-attempt", "late-failure-is-classified", "late-failure-tells-what-is-left",
		// A host tells nothing by itself; it is asked.
		"watch-tells-what-is-there", "watch-tells-what-comes", "watch-tells-what-ends", "watch-tells-what-is-gone",
		"watch-tells-only-of-own", "watch-ends-with-its-context",
		// A host does not throttle.
		"throttling-is-transient",
	}
	if os.Geteuid() == 0 {
		// Nothing refuses root; TestADeniedFolder tries as somebody else.
		want = append(want, "refused-operator-is-denied")
	}
	slices.Sort(want)
	slices.Sort(*seen.all)
	if !slices.Equal(*seen.all, want) {
		t.Errorf("skipped were\n%s\nwant\n%s", strings.Join(*seen.all, "\n"), strings.Join(want, "\n"))
	}
}

// skips is a T that remembers which parts were skipped.
type skips struct {
	providertest.T
	name string
	mu   sync.Mutex
	all  *[]string
}

func (s *skips) Run(name string, f func(providertest.T)) bool {
	return s.T.Run(name, func(t providertest.T) { f(&skips{T: t, name: name, all: s.all}) })
}

func (s *skips) Skipf(format string, args ...any) {
	s.mu.Lock()
	*s.all = append(*s.all, s.name)
	s.mu.Unlock()
	s.T.Skipf(format, args...)
}
