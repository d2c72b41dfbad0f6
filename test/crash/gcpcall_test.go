package crash

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"runtime/debug"
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// opRule is a step that the backend in memory does not have.
const opRule = "rule"

// carry takes a request to the emulator, a mutating one as an effect. It returns nil where nobody hears the answer.
func (e *end) carry(r *http.Request) (answer *httptest.ResponseRecorder) {
	e.mu.Lock()
	lost := e.over != nil || e.c.current != e
	e.mu.Unlock()
	if lost {
		return nil
	}
	defer func() {
		over := recover()
		if over != nil {
			answer = nil
			if _, ok := over.(died); !ok {
				over = fmt.Sprintf("%v\n%s", over, debug.Stack())
			}
		}
		e.mu.Lock()
		e.over = over
		e.mu.Unlock()
	}()
	name, op := meaningOf(r)
	if name == "" {
		return e.send(r, op)
	}
	if e.w.effect(name, func() error {
		if answer = e.send(r, op); answer == nil {
			return errors.New("lost")
		}
		return nil
	}) != nil {
		return nil
	}
	return answer
}

// send lets a request arrive, with what befalls it.
func (e *end) send(r *http.Request, op string) (answer *httptest.ResponseRecorder) {
	if f := faultOf(r, op, e.c.hook(op, provider.Ref{})); f != nil {
		if op == providertest.OpCreate && f.Late != nil {
			e.c.failing = e.w.clock.Now().Add(e.w.vis.delay + insertDelay)
		}
		defer e.c.InjectOnce(gcpemulator.Match{}, *f)()
	}
	defer func() {
		broken := recover()
		if broken != nil && broken != http.ErrAbortHandler {
			panic(broken)
		}
		told := "no answer"
		if broken != nil {
			answer = nil
		} else {
			told = fmt.Sprint(answer.Code)
		}
		e.c.seen = append(e.c.seen, fmt.Sprintf("%s %s %s: %s", e.w.clock.Now().Format("15:04:05.000"), r.Method, r.URL.RequestURI(), told))
	}()
	answer = httptest.NewRecorder()
	e.c.ServeHTTP(answer, r)
	return answer
}

// meaningOf returns the name of the effect that a request is, "" for one that only reads, and the step that it is.
func meaningOf(r *http.Request) (effect, op string) {
	collection := path.Base(r.URL.Path)
	if r.Method == http.MethodDelete {
		collection = path.Base(path.Dir(r.URL.Path))
	}
	switch {
	case strings.Contains(r.URL.Path, "/global/firewalls"):
		return map[string]string{
			http.MethodPost: "make rule", http.MethodPatch: "change rule", http.MethodPut: "change rule", http.MethodDelete: "remove rule",
		}[r.Method], opRule
	case r.Method == http.MethodPost && collection == "instances":
		return "create", providertest.OpCreate
	case r.Method == http.MethodDelete && collection == "instances":
		return "delete", providertest.OpDelete
	case r.Method == http.MethodDelete && collection == "disks":
		return "delete disk", providertest.OpDelete
	case r.Method != http.MethodGet:
		panic("what is " + r.Method + " " + r.URL.Path + "?")
	case strings.Contains(r.URL.Path, "/aggregated/"):
		return "", providertest.OpList
	case collection == "operations":
		return "", providertest.OpGetOperation
	}
	return "", providertest.OpGet
}
