package components

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestTheFirstStepThatFailsEndsTheOthers(t *testing.T) {
	var told strings.Builder
	err := NewReport("program", &told).Together(t.Context(),
		Step{Name: "slow", Do: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
		Step{Name: "broken", Do: func(context.Context) error { return errors.New("no disk") }},
	)
	if err == nil || err.Error() != "broken: no disk" {
		t.Errorf("got %v, want what was first", err)
	}
	if told.Len() > 0 {
		t.Errorf("told as done: %s", told.String())
	}
}

func TestStepsAreTold(t *testing.T) {
	var told strings.Builder
	order := ""
	add := func(s string) func(context.Context) error {
		return func(context.Context) error { order += s; return nil }
	}
	if err := NewReport("program", &told).Together(t.Context(), Step{Name: "both", Do: InOrder(add("a"), add("b"))}); err != nil {
		t.Fatal(err)
	}
	if order != "ab" || !strings.HasPrefix(told.String(), "program: ") || !strings.HasSuffix(told.String(), " s  both\n") {
		t.Errorf("done %q, told %q", order, told.String())
	}
	failing := InOrder(func(context.Context) error { return errors.New("first") }, add("c"))
	if err := failing(t.Context()); err == nil || order != "ab" {
		t.Errorf("after a failure: got %v and %q done", err, order)
	}
}
