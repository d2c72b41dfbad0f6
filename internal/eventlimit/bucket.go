package eventlimit

import "time"

// Rate is how much gets through: Burst at once, and one more for each Every.
type Rate struct {
	Burst int
	Every time.Duration
}

// buckets are token buckets of one rate. Of each is kept when it will be full again, which is exact in integers. One that is
// full needs no place: what is kept is what was taken from within the time that it takes to fill up, so their number is
// bounded by the rate of whatever bounds all. Times are durations since the beginning.
type buckets[K comparable] struct {
	rate    Rate
	fullAt  map[K]time.Duration
	sweepAt int
}

// leastSweep is how many buckets are not worth looking through.
const leastSweep = 256

func newBuckets[K comparable](rate Rate) *buckets[K] {
	return &buckets[K]{rate: rate, fullAt: map[K]time.Duration{}, sweepAt: leastSweep}
}

// have reports whether a bucket holds n tokens.
func (b *buckets[K]) have(key K, n int, now time.Duration) bool {
	return b.fullAt[key]-now <= time.Duration(b.rate.Burst-n)*b.rate.Every
}

// take takes a token that is there.
func (b *buckets[K]) take(key K, now time.Duration) {
	b.fullAt[key] = max(now, b.fullAt[key]) + b.rate.Every
	if len(b.fullAt) < b.sweepAt {
		return
	}
	for k, at := range b.fullAt {
		if at <= now {
			delete(b.fullAt, k)
		}
	}
	b.sweepAt = max(leastSweep, 2*len(b.fullAt)) // so that looking through them adds little to each take
}

// stopwatch tells how long something has been going on, by a clock that may be set back, which it takes for no time.
type stopwatch struct {
	last    time.Time
	elapsed time.Duration
}

func (s *stopwatch) at(now time.Time) time.Duration {
	if !s.last.IsZero() {
		s.elapsed += max(0, now.Sub(s.last))
	}
	s.last = now
	return s.elapsed
}
