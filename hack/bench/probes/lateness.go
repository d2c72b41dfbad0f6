package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

const (
	// warmUp is short, as the engine spreads the first probes over the interval: the load is even from the start.
	warmUp = 10 * time.Second
	// shock is as long as the figure says, calm what is left for the other.
	shock = time.Minute
	calm  = 35 * time.Second
)

// measureLateness fills in how late probes of live targets begin. All probes are real ones: TLS through a tunnel, 333 a
// second, for which the three processes take about a quarter of two cores.
func measureLateness(ctx context.Context, s *site, f figures) error {
	arg, err := s.arg()
	if err != nil {
		return err
	}
	live, err := start(ctx, new(nothing), "live", arg)
	if err != nil {
		return err
	}
	if _, err := lateness(live, "warm-up, all live", longer(warmUp)); err != nil {
		return err
	}
	if err := s.proxy.tell(nothing{}, new(nothing)); err != nil {
		return err
	}
	first, err := lateness(live, "shock, 30 % dead", shock)
	if err != nil {
		return err
	}
	later, err := lateness(live, "after it, 30 % dead", longer(calm))
	if err != nil {
		return err
	}
	if first.DeadFailed == 0 || later.DeadFailed == 0 {
		return fmt.Errorf("nothing died: %+v, %+v", first, later)
	}
	f.add("live_lateness_shock_p99_ms", first.P99)
	f.add("live_lateness_p99_ms", later.P99)
	return live.end()
}

// lateness lets time pass and returns how late probes have begun meanwhile.
func lateness(live *process, what string, d time.Duration) (w watched, err error) {
	<-time.After(d)
	if err := live.tell(nothing{}, &w); err != nil {
		return w, err
	}
	fmt.Fprintf(os.Stderr, "# lateness, %s: p50 %.1f ms, p99 %.1f ms, max %.1f ms of %d live probes (%d failed, %d overdue), %d dead, %.2f cores\n",
		what, w.P50, w.P99, w.Max, w.Live, w.LiveFailed, w.Overdue, w.DeadFailed, w.CPU.Seconds()/d.Seconds())
	if n := w.Live + w.Overdue; n < 1000 {
		err = fmt.Errorf("only %d probes of live targets were due", n)
	} else if w.LiveFailed > w.Live/100 {
		err = fmt.Errorf("%d of %d probes of live targets failed", w.LiveFailed, w.Live)
	}
	return w, err
}
