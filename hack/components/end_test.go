//go:build linux

package components

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAPausedProcessCanBeStopped(t *testing.T) {
	p := script(t, t.TempDir(), "exec sleep 1000")
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("stopping: %v", err)
	}
	if err := p.Resume(t.Context()); err == nil || !strings.Contains(err.Error(), "is not running") {
		t.Errorf("resuming what has ended: got %v", err)
	}
}

func TestKillTakesDescendants(t *testing.T) {
	logs := t.TempDir()
	p := script(t, logs, "sleep 1000 & echo $!; wait")
	p.KillsDescendants = true
	child := 0
	p.Ready = func(context.Context) error {
		data, err := os.ReadFile(filepath.Join(logs, "component.log"))
		if err != nil {
			return err
		}
		child, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); alive(child); {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", child)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// alive says whether a process runs; one that nobody has reaped does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && syscall.Kill(pid, 0) == nil && !strings.Contains(string(stat), ") Z ")
}
