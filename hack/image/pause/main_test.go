package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

func TestItReapsUntilItIsStopped(t *testing.T) {
	stop, child := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(child, syscall.SIGCHLD)
	defer signal.Stop(child)
	done := make(chan struct{})
	go func() {
		hold(stop, child)
		close(done)
	}()
	var pids []int
	for range 5 {
		pid, err := syscall.ForkExec("/bin/true", []string{"true"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		// A process that nobody waits for can still be signalled; one whose exit code was taken is no more.
		for deadline := time.Now().Add(10 * time.Second); !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH); {
			if time.Now().After(deadline) {
				t.Fatalf("process %d is still there", pid)
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	stop <- syscall.SIGTERM
	<-done
}
