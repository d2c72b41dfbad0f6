// Command pause holds the namespaces of a Pod on test clusters that cannot fetch the usual image. It does nothing but take
// the exit codes of processes that nobody else waits for, and ends with 0 on SIGTERM or SIGINT.
package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// Two channels: a burst of children must not crowd out the signal to stop.
	stop, child := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(child, syscall.SIGCHLD)
	hold(stop, child)
}

// hold blocks until stop.
func hold(stop, child <-chan os.Signal) {
	for {
		select {
		case <-stop:
			return
		case <-child:
			reap()
		}
	}
}

// reap takes the exit codes of all children that have ended: one signal may stand for many.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
