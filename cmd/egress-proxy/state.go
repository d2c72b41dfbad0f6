package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local/instancelock"
)

// stateCheck is how often the record's presence is looked at.
const stateCheck = 2 * time.Second

// stateError ends the process with exitState.
type stateError struct{ error }

func (e stateError) Unwrap() error { return e.error }

// holdState opens and locks the state file. The result must be kept open and
// reachable until the process ends, and the file must never be opened again:
// closing any descriptor of it would drop the lock.
func holdState(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, stateError{fmt.Errorf("--state-file: %w", err)}
	}
	if err := instancelock.Hold(f, path); err != nil {
		_ = f.Close()
		return nil, stateError{fmt.Errorf("--state-file: %w", err)}
	}
	return f, nil
}

// watchState blocks until the record is gone, and returns why, or until ctx
// ends, and returns nil. A path that cannot be looked at proves nothing: it is
// logged once and looked at again.
func watchState(ctx context.Context, c clock.WithTicker, f *os.File, path string, log logr.Logger) error {
	ticker := c.NewTicker(stateCheck)
	defer ticker.Stop()
	told := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		err := instancelock.Verify(f, path)
		switch {
		case errors.Is(err, instancelock.ErrReplaced):
			return stateError{fmt.Errorf("--state-file: %w", err)}
		case err != nil && !told:
			log.Error(err, "the state file cannot be checked")
		}
		told = err != nil
	}
}
