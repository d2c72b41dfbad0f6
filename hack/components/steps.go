package components

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Step is one thing to be done and waited for.
type Step struct {
	Name string
	Do   func(context.Context) error
}

// Report tells what is done, and when, counted from its beginning.
type Report struct {
	program string
	to      io.Writer
	began   time.Time
}

// NewReport returns one that begins now; program begins each of its lines.
func NewReport(program string, to io.Writer) *Report {
	return &Report{program: program, to: to, began: time.Now()}
}

// Together does steps at the same time; the first that fails ends the others.
func (r *Report) Together(ctx context.Context, steps ...Step) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, len(steps))
	for _, s := range steps {
		go func() {
			if err := s.Do(ctx); err != nil {
				results <- fmt.Errorf("%s: %w", s.Name, err)
				return
			}
			r.say(s.Name)
			results <- nil
		}()
	}
	var first error
	for range steps {
		if err := <-results; err != nil && first == nil {
			first = err
			cancel()
		}
	}
	return first
}

func (r *Report) say(what string) {
	fmt.Fprintf(r.to, "%s: %4.1f s  %s\n", r.program, time.Since(r.began).Seconds(), what)
}

// InOrder does one after the other until one fails.
func InOrder(steps ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, s := range steps {
			if err := s(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}
