package main

import (
	"context"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// fence is an election lock that knows until when this process may act as the leader: from the start of its last
// successful renewal for as long as the election lease lasts. The manager's own word comes too late: a process that was
// paused (a VM frozen, a machine swapping) believes to lead until its next renewal fails, and another one leads by then.
type fence struct {
	resourcelock.Interface
	now      func() time.Time
	duration time.Duration

	mu    sync.Mutex
	since time.Time // start of the last successful renewal; zero when there is none
}

// What the manifests have to grant, in the operator's own namespace. What is to be created has no name yet that RBAC could
// compare; the name of the rest is the default of --leader-election-id.
//
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=egress-proxies-system
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=egress-proxies-operator,verbs=get;update,namespace=egress-proxies-system

// newFence returns the election lock for o. It does not dial.
func newFence(cfg *rest.Config, o *options) (*fence, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	// A copy, for AddUserAgent hands its argument back: the time-out would cut every watch of the process.
	cfg = rest.AddUserAgent(rest.CopyConfig(cfg), "leader-election")
	cfg.Timeout = max(o.leaseDuration/3, time.Second) // below the renewal's deadline: one hung request is not the end
	core, err := corev1.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	coordination, err := coordinationv1.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, ownNamespace(o), o.leaderID, core, coordination,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())})
	if err != nil {
		return nil, err
	}
	return &fence{Interface: lock, now: time.Now, duration: o.leaseDuration}, nil
}

// Create takes a lock that nobody has.
func (f *fence) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return f.renew(r, func() error { return f.Interface.Create(ctx, r) })
}

// Update takes, renews or gives up the lock.
func (f *fence) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return f.renew(r, func() error { return f.Interface.Update(ctx, r) })
}

func (f *fence) renew(r resourcelock.LeaderElectionRecord, write func() error) error {
	start := f.now() // before the call: the lease runs from when the server stored it at the earliest
	if r.HolderIdentity != f.Identity() {
		f.set(time.Time{}) // given up, before anybody else can know
		return write()
	}
	err := write()
	if err == nil {
		f.set(start)
	}
	return err
}

func (f *fence) set(t time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = t
}

// holds reports whether the election lease can still be this process's. It does not block.
func (f *fence) holds() bool {
	f.mu.Lock()
	since := f.since
	f.mu.Unlock()
	now := f.now()
	// Both clocks have to agree: the monotonic one stands still while a machine is suspended, the wall clock can be set.
	return !since.IsZero() && now.Sub(since) < f.duration && now.Round(0).Sub(since.Round(0)) < f.duration
}
