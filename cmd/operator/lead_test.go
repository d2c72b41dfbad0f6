package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is an election lock whose writes take time and may fail.
type lock struct {
	resourcelock.Interface
	write func() error
}

func (l lock) Identity() string                                                { return "me" }
func (l lock) Create(context.Context, resourcelock.LeaderElectionRecord) error { return l.write() }
func (l lock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return l.write() }

func TestTheFenceClosesWithTheElectionLease(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var slow time.Duration
	var failure error
	f := &fence{duration: 15 * time.Second, now: func() time.Time { return now }}
	f.Interface = lock{write: func() error { now = now.Add(slow); return failure }}
	mine := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
	is := func(want bool, why string) {
		t.Helper()
		if f.holds() != want {
			t.Errorf("holds %t: %s", !want, why)
		}
	}
	is(false, "never elected")
	slow = 4 * time.Second
	if err := f.Create(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	is(true, "just elected")
	now = now.Add(10 * time.Second)
	is(true, "14 s after the renewal began")
	now = now.Add(time.Second)
	is(false, "15 s after the renewal began, whenever its answer came")
	failure = errors.New("conflict")
	if err := f.Update(t.Context(), mine); err == nil {
		t.Fatal("no error")
	}
	is(false, "a renewal that failed")
	failure, slow = nil, 0
	if err := f.Update(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	is(true, "renewed")
	if err := f.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
		t.Fatal(err)
	}
	is(false, "given up")
}

// The configuration is the whole process's: what the election wants of its own requests must not become everybody's.
func TestTheFenceLeavesTheConfigurationAlone(t *testing.T) {
	t.Parallel()
	cfg := &rest.Config{Host: "http://127.0.0.1:1"}
	before := rest.CopyConfig(cfg)
	if _, err := newFence(cfg, &options{leaseDuration: 15 * time.Second, leaderID: "mine", leaderNS: "here"}); err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(cfg, before) {
		t.Errorf("%+v, want %+v", cfg, before)
	}
}
