//go:build e2e

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func intOrString(port int) intstr.IntOrString { return intstr.FromInt(port) }

// poll tries f until it returns "".
func poll(ctx context.Context, limit time.Duration, f func() (complaint string)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		complaint := f()
		if complaint == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New(complaint)
		case <-tick.C:
		}
	}
}

// wait is poll for tests. It returns how long it took.
func wait(t *testing.T, limit time.Duration, what string, f func() (complaint string)) time.Duration {
	t.Helper()
	began := time.Now()
	if err := poll(t.Context(), limit, f); err != nil {
		t.Fatalf("%s: not within %s: %v", what, limit, err)
	}
	return time.Since(began)
}

// during fails as soon as f complains within d.
func during(t *testing.T, d time.Duration, what string, f func() (complaint string)) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		if complaint := f(); complaint != "" {
			t.Fatalf("%s: %s", what, complaint)
		}
	}
}

// proved prints what a test has shown.
func proved(t *testing.T, format string, args ...any) {
	t.Helper()
	fmt.Printf("proved: %s\n", fmt.Sprintf(format, args...))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
