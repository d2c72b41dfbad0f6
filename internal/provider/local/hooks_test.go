//go:build linux

package local_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func (w *world) onStep(step string) {
	w.mu.Lock()
	f := w.deleteHold
	w.mu.Unlock()
	if f != nil {
		f(step)
	}
}

// holdDelete pauses the next Delete once it has found its instance.
func (w *world) holdDelete() (<-chan struct{}, func()) {
	reached, released := make(chan struct{}), make(chan struct{})
	var arrive, release sync.Once
	w.mu.Lock()
	w.deleteHold = func(step string) {
		if step == "found" {
			arrive.Do(func() { close(reached); <-released })
		}
	}
	w.mu.Unlock()
	return reached, func() { release.Do(func() { close(released) }) }
}

// holdFolder keeps the folder's lock. reached is closed when a call of this process waits for it, which shows in its
// having opened the folder.
func (w *world) holdFolder() (<-chan struct{}, func()) {
	f, err := os.Open(w.dir)
	must(w.t, err)
	must(w.t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	before := w.descriptors()
	reached, stop, stopped := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		if within(patience, func() bool {
			select {
			case <-stop:
				return true
			default:
				return w.descriptors() > before
			}
		}) {
			close(reached)
		}
	}()
	var once sync.Once
	release := func() { once.Do(func() { close(stop); <-stopped; _ = f.Close() }) }
	w.t.Cleanup(release)
	return reached, release
}

// descriptors counts those of this process that are of the folder.
func (w *world) descriptors() (n int) {
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range links {
		if target, _ := os.Readlink(link); target == w.dir {
			n++
		}
	}
	return n
}

func (w *world) place(id string) func() bool {
	file, content := w.file(id, ".json"), []byte(`{"somebody": "else's"}`)
	must(w.t, os.WriteFile(file, content, 0o600))
	placed, err := os.Stat(file)
	must(w.t, err)
	return func() bool {
		now, err := os.Stat(file)
		data, _ := os.ReadFile(file)
		return err == nil && os.SameFile(placed, now) && bytes.Equal(data, content)
	}
}

func (w *world) vanish(id string) {
	w.kill(id)
	for _, suffix := range []string{".auth", ".log", ".json"} {
		if err := os.Remove(w.file(id, suffix)); err != nil && !os.IsNotExist(err) {
			w.t.Fatalf("%v", err)
		}
	}
}

// confuse lets a process that is no proxy have the record.
func (w *world) confuse(id string) {
	w.kill(id)
	w.start(job{Do: "hold", Path: w.file(id, ".json")})
}

func (w *world) moveAway() (restore func()) {
	must(w.t, os.Rename(w.dir, w.dir+".away"))
	return func() { must(w.t, os.Rename(w.dir+".away", w.dir)) }
}

func (w *world) deny() (restore func()) {
	must(w.t, os.Chmod(w.dir, 0))
	return func() { must(w.t, os.Chmod(w.dir, 0o700)) }
}

// fillPool gives every address to another installation.
func (w *world) fillPool() (restore func()) {
	var files []string
	block := strings.TrimSuffix(strings.TrimPrefix(w.pool, "[{listen: "), "0/27}]")
	for i := 1; i < 31; i++ {
		uid := fmt.Sprintf("filler-%d", i)
		id := "hosts/" + host + "/processes/" + provider.NameFromUID(uid)
		content := recordOf(provider.NameFromUID(uid), block+strconv.Itoa(i), provider.Marks{UID: uid, Installation: "x", Cluster: "y", Attempt: 1})
		must(w.t, os.WriteFile(w.file(id, ".json"), []byte(content), 0o600))
		files = append(files, w.file(id, ".json"))
	}
	return func() {
		for _, file := range files {
			must(w.t, os.Remove(file))
		}
	}
}

// recordOf is a record of an instance on one address, as the provider writes them.
func recordOf(name, address string, m provider.Marks) string {
	data, err := json.Marshal(map[string]any{
		"version": 1, "host": host, "name": name, "identity": "i", "createdAt": time.Unix(0, 0).UTC(), "marks": m,
		"listen": address, "port": 1, "exit": address,
	})
	if err != nil {
		panic(err)
	}
	return string(data)
}
