package baseimage

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"sync/atomic"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// source is an image on its way from the server to the pool. It hands out exactly as many bytes as were announced, or fails.
// One goroutine reads; others may ask how far it is.
type source struct {
	body   io.Reader
	length int64 // as announced, > 0
	watch  *watch

	hash     hash.Hash
	received atomic.Int64
	head     []byte   // received and not handed out yet
	err      *Failure // of the server's side, for the pool's may hide it
}

// maxEmpty is how many reads in a row may return nothing.
const maxEmpty = 100

func newSource(body io.Reader, length int64, w *watch) *source {
	return &source{body: body, length: length, watch: w, hash: sha256.New()}
}

// peek waits for up to size bytes, fewer only where the image is shorter, which Read hands out later. It is called first.
func (s *source) peek(size int64) ([]byte, error) {
	head := make([]byte, min(size, s.length))
	if _, err := io.ReadFull(s, head); err != nil {
		return nil, err
	}
	s.head = head
	return head, nil
}

// Read waits for at least one byte.
func (s *source) Read(p []byte) (int, error) {
	left := s.length - s.received.Load()
	switch {
	case s.err != nil:
		return 0, s.err
	case len(p) == 0:
		return 0, nil
	case len(s.head) > 0:
		n := copy(p, s.head)
		s.head = s.head[n:]
		s.handed()
		return n, nil
	case left == 0:
		return 0, io.EOF
	}
	n, err := s.receive(p[:min(int64(len(p)), left)])
	if err != nil && int64(n) < left {
		s.err = fail(provider.ErrTransient, "%s", explain(err))
		return n, s.err
	}
	s.handed()
	return n, nil
}

func (s *source) receive(p []byte) (n int, err error) {
	s.watch.enter(receiving)
	for range maxEmpty { // a reader may return nothing at all; that is no progress
		if n, err = s.body.Read(p); n > 0 || err != nil {
			break
		}
	}
	if n == 0 && err == nil {
		err = io.ErrNoProgress
	}
	s.hash.Write(p[:n])
	s.received.Add(int64(n))
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// handed says whose turn it is: the pool takes more, or writes what it has got.
func (s *source) handed() {
	if s.received.Load() == s.length && len(s.head) == 0 {
		s.watch.enter(flushing)
	} else {
		s.watch.enter(sending)
	}
}

// verify reports whether all bytes have come and been taken, no more of them, and the right ones. It may wait for the
// server, as Read does.
func (s *source) verify(sum string) *Failure {
	if s.err != nil {
		return s.err
	}
	if s.received.Load() != s.length || len(s.head) > 0 {
		return fail(provider.ErrTransient, "the pool took only a part of it")
	}
	s.watch.enter(receiving)
	if n, _ := io.ReadFull(s.body, make([]byte, 1)); n > 0 {
		return refuse("the server sends more than it announced")
	}
	if got := hex.EncodeToString(s.hash.Sum(nil)); got != sum {
		return refuse("its checksum is %s, not %s", got, sum)
	}
	return nil
}

// percent is how much has come, a multiple of 10. Nothing has come from nil.
func (s *source) percent() int {
	if s == nil {
		return 0
	}
	return int(s.received.Load() * 10 / s.length * 10)
}

func (s *source) bytes() int64 {
	if s == nil {
		return 0
	}
	return s.received.Load()
}
