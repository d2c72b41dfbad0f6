package boxes_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

const (
	token = "token-of-the-tests"
	boots = 3 * time.Second // from booting to up
	ends  = 2 * time.Second // from removing to gone
	most  = 5               // boxes on a page
)

// service rents out boxes that are nothing but entries of a map. Nothing happens in it but by its clock, when it is asked.
type service struct {
	clock *clocktesting.FakePassiveClock

	mu      sync.Mutex
	boxes   map[string]*entry // by rack/name
	serials int
	fault   func(r *http.Request) *fault
	late    []lateCall
	broken  string // the code with which the next box fails
	dropped bool   // the next box fails, and leaves nothing
	held    bool   // boxes do not come up
}

type entry struct {
	shown    map[string]any
	up, gone time.Time
}

// fault is what befalls one request.
type fault struct {
	hold       <-chan struct{}
	code       string
	status     int
	retryAfter time.Duration
	drop       bool          // the answer is lost
	after      time.Duration // it arrives only then, and its answer is lost
}

type lateCall struct {
	at  time.Time
	run func()
}

func newService(c *clocktesting.FakePassiveClock) *service {
	return &service{clock: c, boxes: map[string]*entry{}}
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Read before anything is held: until then the server does not see that its client has gone.
	var order map[string]any
	if r.Method == http.MethodPut {
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
			answer(w, http.StatusBadRequest, map[string]any{"code": "bad_request"})
			return
		}
	}
	s.mu.Lock()
	strike := s.fault
	s.mu.Unlock()
	var f fault
	if strike != nil {
		if hit := strike(r); hit != nil {
			f = *hit
		}
	}
	if f.hold != nil {
		select {
		case <-f.hold:
		case <-r.Context().Done():
			return
		}
	}
	if r.Header.Get("Authorization") != "Bearer "+token {
		f.code, f.status = "unauthorized", http.StatusUnauthorized
	}
	if f.code != "" {
		if f.retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(f.retryAfter.Seconds())))
		}
		answer(w, f.status, map[string]any{"code": f.code})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.settle()
	if f.after > 0 {
		s.late = append(s.late, lateCall{now.Add(f.after), func() { s.handle(r, order) }})
		panic(http.ErrAbortHandler)
	}
	status, body := s.handle(r, order)
	if f.drop {
		panic(http.ErrAbortHandler)
	}
	answer(w, status, body)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// settle lets everything happen that has fallen due.
func (s *service) settle() time.Time {
	now := s.clock.Now()
	s.late = slices.DeleteFunc(s.late, func(c lateCall) bool {
		due := !c.at.After(now)
		if due {
			c.run()
		}
		return due
	})
	for key, e := range s.boxes {
		if e.shown["status"] == "booting" && !s.held && !now.Before(e.up) {
			e.shown["status"] = "up"
		}
		if e.shown["status"] == "removing" && !now.Before(e.gone) {
			delete(s.boxes, key)
		}
	}
	return now
}

// handle does what a request asks for.
func (s *service) handle(r *http.Request, order map[string]any) (int, any) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // v1 racks R boxes [N]
	if len(parts) == 4 {
		return http.StatusOK, s.page(parts[2], r.URL.Query().Get("after"))
	}
	key := parts[2] + "/" + parts[4]
	e := s.boxes[key]
	code := func(status int, code string) (int, any) { return status, map[string]any{"code": code} }
	switch {
	case r.Method == http.MethodPut && e != nil:
		return code(http.StatusPreconditionFailed, "name_taken")
	case r.Method == http.MethodPut:
		return http.StatusCreated, s.place(key, order["tags"], order["port"]).shown
	case e == nil:
		return code(http.StatusNotFound, "no_box")
	case r.Method == http.MethodGet:
		return http.StatusOK, e.shown
	case e.shown["serial"] != r.URL.Query().Get("serial"):
		return code(http.StatusConflict, "other_serial")
	}
	e.shown["status"], e.gone = "removing", s.clock.Now().Add(ends)
	return http.StatusAccepted, e.shown
}

// place makes a box.
func (s *service) place(key string, tags, port any) *entry {
	s.serials++
	_, name, _ := strings.Cut(key, "/")
	now := s.clock.Now()
	e := &entry{up: now.Add(boots), shown: map[string]any{
		"name": name, "serial": fmt.Sprintf("s%d", s.serials), "status": "booting", "tags": tags, "port": port,
		"ip": fmt.Sprintf("192.0.2.%d", s.serials%250+1), "exit": fmt.Sprintf("198.51.100.%d", s.serials%250+1),
		"created": now.UTC().Format(time.RFC3339),
	}}
	if s.broken != "" {
		e.shown["status"], e.shown["reason"], s.broken = "broken", s.broken, ""
	}
	if s.dropped {
		e.shown["status"], e.gone, s.dropped = "removing", now.Add(boots), false
	}
	s.boxes[key] = e
	return e
}

// page returns the boxes of a rack behind a name.
func (s *service) page(rack, after string) any {
	found, next := []map[string]any{}, ""
	for _, key := range slices.Sorted(maps.Keys(s.boxes)) {
		name, here := strings.CutPrefix(key, rack+"/")
		if !here || name <= after {
			continue
		}
		if len(found) == most {
			next = found[most-1]["name"].(string)
			break
		}
		found = append(found, s.boxes[key].shown)
	}
	return map[string]any{"boxes": found, "next": next}
}

// set changes the status of a box by hand.
func (s *service) set(id, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	if e := s.boxes[keyOf(id)]; e != nil {
		e.shown["status"] = status
	}
}

// keyOf is the key of an ID: racks/R/boxes/N.
func keyOf(id string) string {
	parts := strings.Split(id, "/")
	return parts[1] + "/" + parts[3]
}
