package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	badClients = 500
	// The limits of the server that bad clients turn to: so short that it cuts off each kind within a turn.
	headerLimit, readLimit, writeLimit, idleLimit = 1500 * time.Millisecond, 2 * time.Second, 1500 * time.Millisecond, 3 * time.Second
	// unreadBytes is less than a list has, and more than the kernel takes of one.
	unreadBytes = 100_000
	// siegeTurn is half as long as bad clients stay.
	siegeTurn = 1400 * time.Millisecond
)

// measureBad fills in the figures of good clients beside bad ones.
func measureBad(ctx context.Context, f figures) error {
	load, err := start(ctx, "load")
	if err != nil {
		return err
	}
	bad, err := start(ctx, "bad")
	if err != nil {
		return err
	}
	api, err := startServer(ctx, load, "besieged")
	if err != nil {
		return err
	}
	if _, err := api.each(order{Op: opHold, Conns: clients, Count: smallPool}); err != nil {
		return err
	}
	// A quarter of what the other open loops had: the question is who keeps good clients waiting, not how much there is room for.
	rate := f.median("lease_rate") / 4
	total := map[string]int{}
	for range runs {
		if err := besieged(f, api, bad, rate, total); err != nil {
			return err
		}
	}
	var cut []string
	for _, k := range badKinds {
		cut = append(cut, fmt.Sprintf("%s %d", k.name, total[k.name]))
		if total[k.name] == 0 {
			return fmt.Errorf("%s: the server cut off none", k.name)
		}
	}
	fmt.Fprintf(os.Stderr, "# bad_clients: %d of them in %d turns of %s each, cut off by the server: %s\n",
		badClients, runs, 2*span(siegeTurn), strings.Join(cut, ", "))
	return errors.Join(load.end(), bad.end(), api.end())
}

// besieged is one run: a turn without the bad clients, two turns with them, one without.
func besieged(f figures, api *server, bad *process, rate float64, total map[string]int) error {
	var alone, beside []time.Duration
	for turn, seed := range []uint64{0, 0, 1, 1} {
		var t toll
		switch turn {
		case 1:
			if err := bad.tell(siege{Addr: api.addr, Conns: badClients}, &t); err != nil {
				return err
			}
		case 3:
			if err := bad.tell(siege{}, &t); err != nil {
				return err
			}
			if t.Held < badClients/2 {
				return fmt.Errorf("only %d of %d bad clients were connected", t.Held, badClients)
			}
			for kind, n := range t.Cut {
				total[kind] += n
			}
		}
		w, err := api.each(order{Op: opPair, Conns: 64, For: span(siegeTurn), Rate: rate, Seed: seed})
		if err != nil {
			return err
		}
		if turn == 1 || turn == 2 {
			beside = append(beside, w.Latencies...)
		} else {
			alone = append(alone, w.Latencies...)
		}
	}
	with, without := percentile99(beside), percentile99(alone)
	f.add("bad_clients_p99_ratio", float64(with)/float64(without))
	f.add("bad_clients_p99_micros", float64(with.Microseconds()))
	f.add("no_bad_clients_p99_micros", float64(without.Microseconds()))
	return nil
}
