package providertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// checkMutants break one rule each, in as many ways as are worth it.
func checkMutants() map[string]map[string]func(*checkMutant) {
	return map[string]map[string]func(*checkMutant){
		"check-answers-for-every-target": {
			"only those that are well": func(m *checkMutant) {
				m.said = func(ctx context.Context) []provider.TargetStatus {
					var out []provider.TargetStatus
					for _, st := range m.Checked.Check(ctx) {
						if st.Ready {
							out = append(out, st)
						}
					}
					return out
				}
			},
			"none without time": func(m *checkMutant) {
				m.said = func(ctx context.Context) []provider.TargetStatus {
					if ctx.Err() != nil {
						return nil
					}
					return m.Checked.Check(ctx)
				}
			},
			"not sorted": func(m *checkMutant) {
				m.said = func(ctx context.Context) []provider.TargetStatus {
					all := m.Checked.Check(ctx)
					all[0], all[1] = all[1], all[0]
					return all
				}
			},
			"one twice": func(m *checkMutant) {
				m.said = func(ctx context.Context) []provider.TargetStatus {
					all := m.Checked.Check(ctx)
					return append(all, all[1])
				}
			},
		},
		"check-ready-is-reachable": {
			"ready in spite of a reason": fix(func(_ context.Context, st *provider.TargetStatus) { st.Ready = st.Reason != provider.CheckUnreachable }),
			"another word for ready": fix(func(_ context.Context, st *provider.TargetStatus) {
				if st.Ready {
					st.Reason = "Fine"
				}
			}),
		},
		"check-reasons-are-words": {
			"none": fix(func(_ context.Context, st *provider.TargetStatus) {
				if !st.Ready {
					st.Reason = ""
				}
			}),
			"words": fix(func(_ context.Context, st *provider.TargetStatus) {
				if !st.Ready {
					st.Reason = "not well"
				}
			}),
			"a long one": fix(func(_ context.Context, st *provider.TargetStatus) {
				if !st.Ready {
					st.Reason = "A" + strings.Repeat("a", 64)
				}
			}),
		},
		"check-targets-are-those-of-instances": {
			"another name": func(m *checkMutant) {
				m.target = func(ref provider.Ref) string { return "zones/" + m.Checked.Target(ref) }
			},
			"one for all": func(m *checkMutant) { m.target = func(provider.Ref) string { return "zone-a" } },
		},
		"check-tells-what-is-wrong": {
			"all is well": fix(func(_ context.Context, st *provider.TargetStatus) {
				st.Ready, st.Reason, st.Message = true, provider.CheckReachable, ""
			}),
			"one for all": func(m *checkMutant) {
				m.said = func(ctx context.Context) []provider.TargetStatus {
					all := m.Checked.Check(ctx)
					all[1].Ready, all[1].Reason, all[1].Message = all[0].Ready, all[0].Reason, all[0].Message
					return all
				}
			},
			"never mended": func(m *checkMutant) {
				var last []provider.TargetStatus
				m.said = func(ctx context.Context) []provider.TargetStatus {
					if last == nil || last[0].Ready {
						last = m.Checked.Check(ctx)
					}
					return last
				}
			},
		},
		"check-repeats-itself": {
			"a count": func(m *checkMutant) {
				n := 0
				m.said = func(ctx context.Context) []provider.TargetStatus {
					n++
					all := m.Checked.Check(ctx)
					all[0].Message += fmt.Sprint(n)
					return all
				}
			},
			"what the backend says": func(m *checkMutant) {
				m.said = func(ctx context.Context) []provider.TargetStatus {
					all := m.Checked.Check(ctx)
					all[0].Message = m.raw(ctx, all[0].Target)
					return all
				}
			},
		},
		"check-leaves-nothing-behind": {
			"an instance": func(m *checkMutant) {
				m.said = func(ctx context.Context) []provider.TargetStatus {
					m.backend.Place("zones/zone-a/instances/check", nil, 1)
					return m.Checked.Check(ctx)
				}
			},
		},
		"check-messages-are-clean": {
			"a long one":  fix(func(_ context.Context, st *provider.TargetStatus) { st.Message = strings.Repeat("x", 513) }),
			"two lines":   fix(func(_ context.Context, st *provider.TargetStatus) { st.Message = "a\nb" }),
			"not UTF-8":   fix(func(_ context.Context, st *provider.TargetStatus) { st.Message = "a\xff" }),
			"a half rune": fix(func(_ context.Context, st *provider.TargetStatus) { st.Message = strings.Repeat("x", 511) + "ä"[:1] }),
		},
		"check-keeps-secrets": {
			"the answer in a message": func(m *checkMutant) {
				m.said = func(ctx context.Context) []provider.TargetStatus {
					all := m.Checked.Check(ctx)
					all[0].Message = m.raw(ctx, all[0].Target)
					return all
				}
			},
			"the answer in a detail": func(m *checkMutant) {
				m.said = func(ctx context.Context) []provider.TargetStatus {
					all := m.Checked.Check(ctx)
					all[1].Details["said"] = m.raw(ctx, all[1].Target)
					return all
				}
			},
			"the credentials in a log": fix(func(ctx context.Context, _ *provider.TargetStatus) {
				logr.FromContextOrDiscard(ctx).V(5).Info("asking", "token", "sentinel-credentials-77aa")
			}),
		},
		"check-details-are-bounded": {
			"many": fix(func(_ context.Context, st *provider.TargetStatus) {
				for i := range 33 {
					st.Details[fmt.Sprint("n", i)] = ""
				}
			}),
			"a key that is none": fix(func(_ context.Context, st *provider.TargetStatus) { st.Details["a b"] = "" }),
			"a long key":         fix(func(_ context.Context, st *provider.TargetStatus) { st.Details[strings.Repeat("k", 64)] = "" }),
			"a long value":       fix(func(_ context.Context, st *provider.TargetStatus) { st.Details["k"] = strings.Repeat("v", 257) }),
			"a value of two lines": fix(func(_ context.Context, st *provider.TargetStatus) {
				st.Details["k"] = "a\nb"
			}),
		},
		"check-returns-at-once-with-an-ended-context": {
			"it asks nevertheless": func(m *checkMutant) {
				m.said = func(ctx context.Context) []provider.TargetStatus {
					timeout, cancel := context.WithTimeout(context.WithoutCancel(ctx), 90*time.Millisecond)
					defer cancel()
					return m.Checked.Check(timeout)
				}
			},
			"it answers from memory": func(m *checkMutant) {
				m.said = func(context.Context) []provider.TargetStatus {
					return []provider.TargetStatus{{Target: "zone-a", Ready: true, Reason: provider.CheckReachable}, {Target: "zone-b", Ready: true, Reason: provider.CheckReachable}}
				}
			},
		},
		"check-ends-with-its-context": {
			"it waits for its own time": func(m *checkMutant) {
				m.said = func(ctx context.Context) []provider.TargetStatus {
					all := m.Checked.Check(ctx)
					if ctx.Err() != nil {
						<-time.After(7 * time.Second)
					}
					return all
				}
			},
			"one after the other": func(m *checkMutant) {
				m.said = func(ctx context.Context) []provider.TargetStatus {
					return []provider.TargetStatus{m.checkZone(ctx, "zone-a"), m.checkZone(ctx, "zone-b")}
				}
			},
			"all or none": func(m *checkMutant) {
				m.said = func(ctx context.Context) []provider.TargetStatus {
					all := m.Checked.Check(ctx)
					if ctx.Err() != nil {
						for i := range all {
							all[i].Ready, all[i].Reason = false, provider.CheckTimeout
						}
					}
					return all
				}
			},
			"another word for it": fix(func(ctx context.Context, st *provider.TargetStatus) {
				if ctx.Err() != nil && !st.Ready {
					st.Reason = provider.CheckUnreachable
				}
			}),
		},
		"check-spares-a-create": {"a connection for both": shareConnection},
		"check-spares-a-get":    {"a connection for both": shareConnection},
		"check-bears-company": {
			"one at a time": func(m *checkMutant) {
				busy := make(chan struct{}, 1)
				m.said = func(ctx context.Context) []provider.TargetStatus {
					select {
					case busy <- struct{}{}:
						defer func() { <-busy }()
						<-time.After(5 * time.Millisecond)
						return m.Checked.Check(ctx)
					default:
						return nil
					}
				}
			},
		},
		"check-leaves-no-goroutines": {
			"one that waits": func(m *checkMutant) {
				m.said = func(ctx context.Context) []provider.TargetStatus {
					go func() { <-m.end }()
					return m.Checked.Check(ctx)
				}
			},
		},
		"check-does-not-pile-up": {
			"one for each": func(m *checkMutant) {
				m.said = func(ctx context.Context) []provider.TargetStatus {
					go func() { <-m.end }()
					go func() { <-m.end }()
					return m.Checked.Check(ctx)
				}
			},
		},
		"check-survives-close": {
			"a panic": func(m *checkMutant) {
				var closed atomic.Bool
				m.close = func() { closed.Store(true) }
				m.said = func(ctx context.Context) []provider.TargetStatus {
					if closed.Load() {
						panic(errors.New("the client is closed"))
					}
					return m.Checked.Check(ctx)
				}
			},
			"nothing to say": func(m *checkMutant) {
				var closed atomic.Bool
				m.close = func() { closed.Store(true) }
				m.said = func(ctx context.Context) []provider.TargetStatus {
					if closed.Load() {
						return nil
					}
					return m.Checked.Check(ctx)
				}
			},
		},
	}
}

// shareConnection ends, with a check that runs into its time, every call that is under way.
func shareConnection(m *checkMutant) {
	life, end := context.WithCancel(context.Background())
	m.said = func(ctx context.Context) []provider.TargetStatus {
		all := m.Checked.Check(ctx)
		if ctx.Err() != nil {
			end()
		}
		return all
	}
	m.create = func(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		return m.Checked.Create(ctx, req, ref)
	}
	m.get = func(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		return m.Checked.Get(ctx, ref)
	}
}
