package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// bench measures the two servers. Of its steps, each one run's, first says which server has its turn first.
type bench struct {
	figures
	api, ref *server
	// rate is half of the operations a second that the slower can do.
	rate float64
}

// both runs order on both servers, in turn.
func (b *bench) both(first int, api, ref order) (ofAPI, ofRef window, err error) {
	if first == 0 {
		if ofAPI, err = b.api.each(api); err == nil {
			ofRef, err = b.ref.each(ref)
		}
		return ofAPI, ofRef, err
	}
	if ofRef, err = b.ref.each(ref); err == nil {
		ofAPI, err = b.api.each(api)
	}
	return ofAPI, ofRef, err
}

// warm connects everybody, exhausts the small pool and checks that the answers are alike.
func (b *bench) warm() error {
	if _, err := b.api.each(order{Op: opHold, Conns: clients, Count: smallPool}); err != nil {
		return err
	}
	if _, err := b.api.each(order{Op: opRefused, Conns: crowd, Count: 2 * crowd}); err != nil {
		return err
	}
	api, ref, err := b.both(0, order{Op: opPair, Conns: clients, For: time.Second}, order{Op: opTwice, Conns: clients, For: time.Second})
	if err == nil && math.Abs(float64(api.Bytes-ref.Bytes)) > 0.02*float64(ref.Bytes) {
		err = fmt.Errorf("answers of %d bytes are compared with %d of the reference", api.Bytes, ref.Bytes)
	}
	return err
}

func (b *bench) idle(int) error {
	if err := b.api.measureIdle(); err != nil {
		return err
	}
	return b.ref.measureIdle()
}

func (b *bench) cpu(first int) error {
	d := span(1500 * time.Millisecond)
	api, ref, err := b.both(first, order{Op: opPair, Conns: clients, For: d}, order{Op: opTwice, Conns: clients, For: d})
	if err != nil {
		return err
	}
	b.add("lease_cpu_ratio", api.cpu/ref.cpu)
	b.add("lease_cpu_micros", api.cpu)
	b.add("reference_cpu_micros", ref.cpu)
	b.rate = min(float64(api.Ops)/api.Took.Seconds(), float64(ref.Ops)/ref.Took.Seconds()) / 2
	return nil
}

// p99 lets the servers take short turns, so that a moment at which the machine stands still hits both.
func (b *bench) p99(first int) error {
	var ofAPI, ofRef []time.Duration
	for turn := range turns {
		o := order{Conns: 64, For: span(250 * time.Millisecond), Rate: b.rate, Seed: uint64(turn)}
		pair, twice := o, o
		pair.Op, twice.Op = opPair, opTwice
		api, ref, err := b.both((first+turn)%2, pair, twice)
		if err != nil {
			return err
		}
		ofAPI, ofRef = append(ofAPI, api.Latencies...), append(ofRef, ref.Latencies...)
	}
	api, ref := percentile99(ofAPI), percentile99(ofRef)
	b.add("lease_p99_ratio", float64(api)/float64(ref))
	b.add("lease_p99_micros", float64(api.Microseconds()))
	b.add("reference_p99_micros", float64(ref.Microseconds()))
	b.add("lease_rate", b.rate)
	return nil
}

func percentile99(latencies []time.Duration) time.Duration {
	slices.Sort(latencies)
	return latencies[len(latencies)*99/100]
}

func (b *bench) lists(int) error {
	var before, after reading
	if err := b.ref.tell(command{}, &before); err != nil {
		return err
	}
	if err := b.ref.tell(command{Marshal: marshalTimes}, &after); err != nil {
		return err
	}
	encoding := float64((after.CPU - before.CPU).Microseconds()) / marshalTimes
	w, err := b.api.each(order{Op: opList, Conns: 1, For: span(time.Second)})
	if err != nil {
		return err
	}
	b.add("list_cpu_ratio", w.cpu/encoding)
	b.add("list_proxy_micros", w.cpu/pageSize)
	b.add("list_heap_kib", w.alloc/1024)
	return nil
}

// refusals compares, in short turns, a refused acquire with a granted one, both by everybody who may poll a pool.
func (b *bench) refusals(first int) error {
	var granted, refused float64
	for turn := range 2 * crowdTurns {
		o := order{Op: opRefused, Conns: crowd, Count: crowdCalls}
		sum := &refused
		if (first+turn)%2 == 0 {
			o.Op, sum = opAcquire, &granted
		}
		w, err := b.api.each(o)
		if err != nil {
			return err
		}
		*sum += w.cpu / crowdTurns
		if o.Op == opAcquire {
			if _, err := b.api.do(order{Op: opRelease, Conns: clients}); err != nil {
				return err
			}
		}
	}
	b.add("refusal_cpu_ratio", refused/granted)
	b.add("refused_cpu_micros", refused)
	b.add("granted_cpu_micros", granted)
	return nil
}
