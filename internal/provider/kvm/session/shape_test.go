package session_test

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/digitalocean/go-libvirt/socket"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session/wiretest"
)

// calls are the names of all that is asked for.
func calls() (names []string) {
	api := reflect.TypeFor[session.API]()
	for i := range api.NumMethod() {
		names = append(names, api.Method(i).Name)
	}
	return names
}

// call makes a call with arguments that mean nothing.
func call(r *rig, name string) error {
	_, err := session.Call(r.t.Context(), r.Host, name, func(api session.API) (struct{}, error) {
		method := reflect.ValueOf(api).MethodByName(name)
		in := make([]reflect.Value, method.Type().NumIn())
		for i := range in {
			in[i] = reflect.Zero(method.Type().In(i))
		}
		out := method.Call(in)
		err, _ := out[len(out)-1].Interface().(error)
		return struct{}{}, err
	})
	return err
}

// A host can claim that a list has two thousand million elements, or a text as many bytes. The client library would reserve the
// memory before it reads the first.
func TestClaims(t *testing.T) {
	for _, name := range calls() {
		for _, status := range []uint32{socket.StatusOK, socket.StatusError} {
			bubble(t, fmt.Sprintf("%s, status %d", name, status), nil, func(t *testing.T, r *rig) {
				for _, claim := range []uint32{1<<31 - 1, 1 << 24, 1 << 31, 1<<32 - 1} {
					// Behind words that are counts, texts and numbers, as the shape of the answer has it.
					for words := range 14 {
						var payload []byte
						for _, w := range append(slices.Repeat([]uint32{1}, words), claim, 1, 0, 0) {
							payload = binary.BigEndian.AppendUint32(payload, w)
						}
						r.server.SetFault(on(name, func(c *wiretest.Call) {
							p := c.Answer(payload)
							p.Status = status
							c.Conn.Send(p.Bytes())
						}))
						var before, after runtime.MemStats
						runtime.ReadMemStats(&before)
						_ = call(r, name) // it may be an answer, by chance
						synctest.Wait()
						runtime.ReadMemStats(&after)
						if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
							t.Fatalf("%d behind %d words took %d MiB of memory", claim, words, n>>20)
						}
						r.server.SetFault(nil)
					}
				}
				r.works("afterwards")
			})
		}
	}
}
