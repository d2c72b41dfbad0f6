package main

import (
	"fmt"
	"slices"
)

// judge searches all that was shown, and sees that there was something to be found.
func (x *planted) judge(leader, standby *operatorProcess) {
	t := x.cloudOnHost.t
	x.s.absent(t, "the leader's log", leader.log.String())
	x.s.absent(t, "the standby's log", standby.log.String())
	x.s.absent(t, "a status or an Event", x.witness.all())
	spans := x.spans.Spans()
	if len(spans) < 100 {
		t.Errorf("%d spans", len(spans))
	}
	for _, s := range spans {
		x.s.absent(t, "the span "+s.GetName(), fmt.Sprint(s.Span, s.Resource))
	}
	// Secrets that came to whom they are for, and were repeated by them.
	for _, place := range []string{
		"a user", "a password", "a cloud-init", "the access token of operator", "the key ID of operator", "the token of a kubeconfig",
		"the user of an image", "the password of an image", "the signature of an image", "a probe's URL", "a judge's URL",
	} {
		if !x.s.seen[place] && place != "the key ID of operator" {
			t.Errorf("nobody has got %s", place)
		}
	}
	for _, reason := range []string{"Created", "Ready", "NotReady", "PermanentError", "ProviderUnavailable", "SharedCauseSuspected", "ProxyAuthFailed", "ConfigurationRefused", "OrphanBreakerOpen", "Draining"} {
		if !x.witness.has(reason) {
			t.Errorf("no Event and no condition with reason %s was seen", reason)
		}
	}
	x.levels(leader, standby)
}

// levels sees that the logs were those of a whole life.
func (x *planted) levels(leader, standby *operatorProcess) {
	t := x.cloudOnHost.t
	lines, _ := leader.lines()
	verbosities, traced := map[int]int{}, 0
	for _, l := range lines {
		verbosities[l.Verbosity]++
		if l.Values["traceID"] != nil {
			traced++
		}
	}
	for _, v := range []int{0, 1, 2, 5} {
		if verbosities[v] == 0 {
			t.Errorf("no line of V(%d) among %v", v, verbosities)
		}
	}
	if traced == 0 {
		t.Error("no line has a trace")
	}
	lines, _ = standby.lines()
	messages := []string{}
	for _, l := range lines {
		messages = append(messages, l.Message)
		if l.Values["traceID"] != nil || l.Values["spanID"] != nil {
			t.Errorf("without traces there is %+v", l)
		}
	}
	if !slices.Contains(messages, "pass") {
		t.Error("the standby has not come to lead")
	}
}
