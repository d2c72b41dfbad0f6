package discovery

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

const (
	// maxLists bounds the lists of more than a piece that are written at one time, half of them to one principal; listTime
	// is for how long one may be.
	maxLists = 128
	listTime = 15 * time.Second
	// listPatience is how long one waits for its place among them.
	listPatience = 2 * time.Second
	// maxPiece is how much of a list is made before it is written. What it was passed by still fits into pieceBuffer: by
	// the contract a proxy has at most 13 KB.
	maxPiece    = 18 << 10
	pieceBuffer = 32 << 10
)

var pieces = sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, pieceBuffer)) }}

// writeList answers with a page of a list, {"proxies":[…],"count":n,"continue":next}, of which the last member is left out
// when next is empty. It is made piece by piece as the client reads it, for somebody who does not must cost little.
func (s *Server) writeList(x *exchange, r *http.Request, page []*fleet.Proxy, next string) {
	// Where it cannot be set there is no connection, or none any more.
	_ = http.NewResponseController(x).SetWriteDeadline(time.Now().Add(min(listTime, s.o.WriteTimeout)))
	b, _ := pieces.Get().(*bytes.Buffer)
	b.Reset()
	defer func() {
		if b.Cap() <= maxPooled {
			pieces.Put(b)
		}
	}()
	b.WriteString(`{"proxies":[`)
	var v proxyView
	for i, live := range s.o.Ledger.LiveOnEach(page) {
		if i > 0 {
			b.WriteByte(',')
		}
		v = viewProxy(page[i], live)
		encode(b, &v)
		if b.Len() < maxPiece {
			continue
		}
		if x.status == 0 && r.Method != http.MethodHead {
			leave, ok := s.lists.enter(r.Context(), x.principal.Name, listPatience)
			if !ok {
				x.Header().Set("Retry-After", retryAfter(time.Second))
				x.fail(&apiError{http.StatusServiceUnavailable, "overloaded", "too many lists are being read at the moment"})
				return
			}
			defer leave()
		}
		if x.status == 0 {
			x.isJSON()
			x.WriteHeader(http.StatusOK)
		}
		if r.Method == http.MethodHead {
			return
		}
		// A client that went away is its own affair.
		if _, err := x.Write(b.Bytes()); err != nil {
			return
		}
		b.Reset()
	}
	b.WriteString(`],"count":`)
	b.Write(strconv.AppendInt(b.AvailableBuffer(), int64(len(page)), 10))
	if next != "" {
		b.WriteString(`,"continue":"` + next + `"`) // of letters that JSON need not escape
	}
	b.WriteByte('}')
	if x.status == 0 {
		x.encoded(http.StatusOK, b.Bytes())
		return
	}
	_, _ = x.Write(b.Bytes())
}

// encode appends v, which must be encodable: every body is a struct of this package made of plain values. Not
// encoding/json: sorting the attributes by reflection costs it more than everything else that a lease takes beside HTTP,
// and several times its size for a long list.
func encode(b *bytes.Buffer, v any) {
	if err := json.MarshalWrite(b, v, deterministic); err != nil {
		panic(err)
	}
}

var deterministic = json.Deterministic(true)
