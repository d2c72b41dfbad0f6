package session_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session/wiretest"
)

var errRefused = errors.New("refused")

func resting(d time.Duration) func(*session.Options) {
	return func(o *session.Options) {
		o.Rest = func(err error) time.Duration {
			if errors.Is(err, errRefused) {
				return d
			}
			return 0
		}
	}
}

func TestRest(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	bubble(t, "", func(o *session.Options) { o.Clock = clk; resting(30 * time.Second)(o) }, func(t *testing.T, r *rig) {
		refuse := func(context.Context) (net.Conn, error) { return nil, errRefused }
		r.reach(refuse)
		fails := func(when string, dials int32) {
			t.Helper()
			for range 10 {
				if err := version(t.Context(), r.Host); !errors.Is(err, errRefused) {
					t.Errorf("%s: %v", when, err)
				}
			}
			if n := r.dials.Load(); n != dials {
				t.Errorf("%s: dialed %d times", when, n)
			}
		}
		fails("refused", 1)
		clk.Step(30*time.Second - 1)
		fails("at rest", 1)
		clk.Step(1)
		fails("refused again", 2)
		// It is mended, which shows after the rest.
		r.reach(func(context.Context) (net.Conn, error) { return r.server.Dial() })
		fails("mended", 2)
		clk.Step(30 * time.Second)
		r.works("after the rest")
		// What was refused once does not count any more.
		r.reach(refuse)
		r.server.Cut()
		synctest.Wait()
		fails("after a loss", 4)
		// What rests for no time is tried each time.
		clk.Step(30 * time.Second)
		r.reach(func(context.Context) (net.Conn, error) { return nil, errors.New("no way") })
		before := r.dials.Load()
		for range 5 {
			_ = version(t.Context(), r.Host)
		}
		if n := r.dials.Load() - before; n != 5 {
			t.Errorf("dialed %d times", n)
		}
	})
}

func TestUUID(t *testing.T) {
	const uuid = "01234567-89ab-cdef-0123-456789abcdef"
	bubble(t, "", func(o *session.Options) { o.UUID = uuid }, func(t *testing.T, r *rig) {
		says := func(text string) {
			r.server.SetFault(on("ConnectGetCapabilities", func(c *wiretest.Call) {
				c.Conn.Send(c.Answer(wiretest.String("<capabilities><host><uuid>" + text + "</uuid></host></capabilities>")).Bytes())
			}))
		}
		for i := range 3 {
			says("fedcba98-89ab-cdef-0123-456789abcdef")
			err := version(t.Context(), r.Host)
			e, ok := errors.AsType[*session.MismatchError](err)
			if !ok || e.Want != uuid || !strings.HasPrefix(e.Got, "fedcba98") {
				t.Error(err)
			}
			if _, err := r.Open(t.Context()); err == nil || err.Error() != e.Error() {
				t.Error(err)
			}
			r.connections("another host", 2*i+2, 0)
		}
		if n := r.times("ConnectGetVersion"); n != 0 {
			t.Errorf("another host was called %d times", n)
		}
		r.server.SetFault(on("ConnectGetCapabilities", func(c *wiretest.Call) { c.Conn.Send(c.Answer(wiretest.String("<caps")).Bytes()) }))
		if err := version(t.Context(), r.Host); err == nil || !strings.Contains(err.Error(), "UUID") {
			t.Error(err)
		}
		r.connections("no XML", 7, 0)
		says(strings.ToUpper(uuid))
		r.works("the right one")
		r.connections("the right one", 8, 1)
	})
}
