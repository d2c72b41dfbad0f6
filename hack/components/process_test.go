package components

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func script(t *testing.T, logs, text string) *Process {
	t.Helper()
	p := &Process{Name: "component", Path: "/bin/sh", Args: []string{"-c", text}, Logs: logs, Ready: func(context.Context) error { return nil }}
	t.Cleanup(func() { _ = p.Kill(context.Background()) })
	return p
}

func TestAProcessStartsAndEndsAgain(t *testing.T) {
	logs := t.TempDir()
	if err := os.WriteFile(filepath.Join(logs, "component.log"), []byte("of another life\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := script(t, logs, "echo started; exec sleep 1000")
	lives := 0
	p.Ready = func(context.Context) error {
		data, err := os.ReadFile(filepath.Join(logs, "component.log"))
		if err == nil && strings.Count(string(data), "started\n") < lives {
			err = errors.New("not yet")
		}
		return err
	}
	for _, end := range []func(context.Context) error{p.Stop, p.Kill} {
		lives++
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "is running") {
			t.Errorf("starting what runs: got %v", err)
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := end(t.Context()); err == nil || !strings.Contains(err.Error(), "is not running") {
			t.Errorf("ending what does not run: got %v", err)
		}
		if err := p.UnexpectedEnd(); err != nil {
			t.Errorf("ended on purpose, yet: %v", err)
		}
	}
	data, err := os.ReadFile(filepath.Join(logs, "component.log"))
	if err != nil || string(data) != "started\nstarted\n" {
		t.Errorf("the log is %q, %v, want both lives and nothing of another life", data, err)
	}
}

func TestStartTellsThatTheProcessHasEnded(t *testing.T) {
	p := script(t, t.TempDir(), "exit 3")
	p.Ready = func(context.Context) error { return errors.New("refused") }
	began := time.Now()
	err := p.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "component has ended: exit status 3") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > StartTimeout/2 {
		t.Errorf("it took %s to notice", took)
	}
	if err := p.UnexpectedEnd(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("unexpected end: got %v", err)
	}
}

func TestStartTellsWhatItWaitedFor(t *testing.T) {
	p := script(t, t.TempDir(), "exec sleep 1000")
	p.Ready = func(context.Context) error { return errors.New("503 Service Unavailable") }
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := p.Start(ctx); err == nil || !strings.Contains(err.Error(), "component does not get ready: 503") {
		t.Errorf("got %v", err)
	}
}
