package baseimage_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/baseimage"
)

func TestAnswersThatAreNoImage(t *testing.T) {
	for _, tc := range []struct {
		reason string
		answer func(*rig, http.ResponseWriter, *http.Request)
		class  error
		says   string
	}{
		{"no Content-Length", func(r *rig, w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			_, _ = w.Write(r.data)
		}, provider.ErrPermanent, "/debian.qcow2: the server does not say how long"},
		{"empty", func(_ *rig, w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "0") }, provider.ErrPermanent, "is empty"},
		{"too long", func(_ *rig, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(64<<30+1))
			w.(http.Flusher).Flush()
		}, provider.ErrPermanent, "68719476737 bytes long, more than the 68719476736"},
		{"another image", func(r *rig, w http.ResponseWriter, _ *http.Request) {
			d := append([]byte(nil), r.data...)
			d[0x20000] ^= 1
			r.serve(w, d)
		}, provider.ErrPermanent, "its checksum is "},
		{"one bit off at the end", func(r *rig, w http.ResponseWriter, _ *http.Request) {
			d := append([]byte(nil), r.data...)
			d[len(d)-1] ^= 1
			r.serve(w, d)
		}, provider.ErrPermanent, "its checksum is "},
		{"announced too short", func(r *rig, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(r.data)-1))
			_, _ = w.Write(r.data[:len(r.data)-1])
			_, _ = w.Write(r.data[len(r.data)-1:])
		}, provider.ErrPermanent, "its checksum is "},
		{"announced too long", func(r *rig, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(r.data)+1))
			_, _ = w.Write(r.data)
		}, provider.ErrTransient, "ended too early"},
		{"cut in its middle", func(r *rig, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(r.data)))
			_, _ = w.Write(r.data[:len(r.data)/2])
		}, provider.ErrTransient, "ended too early"},
		{"cut in its header", func(r *rig, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(r.data)))
			_, _ = w.Write(r.data[:50])
		}, provider.ErrTransient, "ended too early"},
		{"reset in its middle", func(r *rig, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(r.data)))
			_, _ = w.Write(r.data[:len(r.data)/2])
			w.(http.Flusher).Flush()
			reset(w)
		}, provider.ErrTransient, ""},
		{"reset", func(_ *rig, w http.ResponseWriter, _ *http.Request) { reset(w) }, provider.ErrTransient, ""},
		{"no HTTP", func(_ *rig, w http.ResponseWriter, _ *http.Request) {
			c, _, _ := w.(http.Hijacker).Hijack()
			_, _ = io.WriteString(c, "secret nonsense\r\n\r\n")
			_ = c.Close()
		}, provider.ErrTransient, "cannot be understood"},
		{"huge headers", func(_ *rig, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Secret", strings.Repeat("secret", 1<<20))
		}, provider.ErrTransient, "cannot be understood"},
		{"a web page", func(r *rig, w http.ResponseWriter, _ *http.Request) { r.serve(w, []byte("<html>secret")) }, provider.ErrPermanent, "is not a qcow2 image"},
		{"an overlay", func(r *rig, w http.ResponseWriter, _ *http.Request) { r.serve(w, image(headBacking)) }, provider.ErrPermanent, "has a backing file"},
		{"redirected for ever", func(_ *rig, w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "/debian.qcow2?secret=1", http.StatusFound)
		}, provider.ErrPermanent, "redirects too often"},
		{"redirected elsewhere", func(_ *rig, w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "file:///secret", http.StatusFound)
		}, provider.ErrPermanent, "neither http nor https"},
		{"redirected to nonsense", func(_ *rig, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://user:secret@%zz/?secret")
			w.WriteHeader(http.StatusFound)
		}, provider.ErrTransient, "cannot be understood"},
		{"redirected nowhere", func(_ *rig, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) }, provider.ErrPermanent, "answers 302"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			var r *rig
			r = newRig(t, func(w http.ResponseWriter, q *http.Request) { tc.answer(r, w, q) })
			u, _ := url.Parse(r.image.URL)
			u.User, u.RawQuery, u.Fragment = url.UserPassword("user", "secret"), "X-Signature=secret&secret", "secret"
			r.image.URL = u.String()
			r.download()
			f := r.failed(tc.class, tc.says, `image "debian": `)
			if strings.Contains(f.Error(), "secret") || strings.Contains(f.Error(), "epx-base-") || len(f.Error()) > 512 {
				t.Errorf("it says %s", f)
			}
			// Another process says the very same.
			other := r.process(r.pool)
			_ = other.Prepare(t.Context(), r.image)
			other.Wait()
			if err := other.Prepare(t.Context(), r.image); err == nil || err.Error() != f.Error() {
				t.Errorf("first %v, then %v", f, err)
			}
		})
	}
}

func reset(w http.ResponseWriter) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

func TestStatuses(t *testing.T) {
	for code, class := range map[int]error{
		201: provider.ErrPermanent, 204: provider.ErrPermanent, 206: provider.ErrPermanent, 304: provider.ErrPermanent,
		400: provider.ErrPermanent, 401: provider.ErrPermanent, 403: provider.ErrPermanent, 404: provider.ErrPermanent,
		410: provider.ErrPermanent, 408: provider.ErrTransient, 429: provider.ErrTransient, 500: provider.ErrTransient,
		502: provider.ErrTransient, 503: provider.ErrTransient, 504: provider.ErrTransient,
	} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
			r.download()
			r.failed(class, fmt.Sprintf("/debian.qcow2: the server answers %d", code))
		})
	}
}

func TestBackoff(t *testing.T) {
	status, header := http.StatusBadGateway, ""
	r := newRig(t, nil)
	r.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r.hits.Add(1)
		if header != "" {
			w.Header().Set("Retry-After", header)
		}
		if status == http.StatusOK {
			r.serve(w, r.data)
			return
		}
		w.WriteHeader(status)
	})
	try := func(want time.Duration) {
		t.Helper()
		before := r.hits.Load()
		r.download()
		f := r.failed(map[bool]error{true: provider.ErrTransient, false: provider.ErrPermanent}[status != 404])
		if f.RetryAfter != want || r.hits.Load() != before+1 {
			t.Errorf("next in %s after %d tries, want %s", f.RetryAfter, r.hits.Load()-before, want)
		}
		r.clock.Step(want - time.Second)
		if f := r.failed(f.Class); f.RetryAfter != time.Second || r.hits.Load() != before+1 {
			t.Errorf("a second before: %s, %d tries", f.RetryAfter, r.hits.Load()-before)
		}
		r.clock.Step(time.Second)
	}
	for _, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 30 * time.Minute, 30 * time.Minute} {
		try(want)
	}
	status = http.StatusOK
	r.download()
	r.pool.vanish(r.pool.names()...)
	status, header = http.StatusTooManyRequests, "100" // and success has made it forget
	try(100 * time.Second)
	header = "5"
	try(time.Minute)
	header = r.clock.Now().Add(10 * time.Minute).UTC().Format(http.TimeFormat)
	try(10 * time.Minute)
	header = "9999999"
	try(30 * time.Minute)
	header = "99999999999999999999"
	try(30 * time.Minute)
	header = "soon"
	try(16 * time.Minute)
	header = ""
	r.cache.Drop(r.image)
	status = http.StatusNotFound
	try(30 * time.Minute)
	status = http.StatusOK // servers get mended
	r.download()
	r.found()
}

func TestNoServer(t *testing.T) {
	r := newRig(t, nil)
	r.server.Close()
	r.download()
	r.failed(provider.ErrTransient, r.image.URL+": connection refused")
	r.image.URL = "http://nowhere.invalid/x"
	r.download()
	r.failed(provider.ErrTransient)
}

func TestRedirects(t *testing.T) {
	var r *rig
	last := 11
	r = newRig(t, func(w http.ResponseWriter, q *http.Request) {
		n, _ := strconv.Atoi(q.URL.Query().Get("n"))
		if q.Header.Get("Referer") != "" {
			t.Errorf("the next server is told %q", q.Header.Get("Referer"))
		}
		if n < last {
			http.Redirect(w, q, fmt.Sprintf("/?n=%d&secret=1", n+1), http.StatusFound)
			return
		}
		r.serve(w, r.data)
	})
	r.download()
	r.failed(provider.ErrPermanent, "redirects too often")
	if got := r.hits.Load(); got != 11 {
		t.Errorf("%d requests", got)
	}
	last = 10
	r.later()
	r.download()
	r.found()
}

func TestHTTPS(t *testing.T) {
	r := newRig(t, nil)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if got := q.Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("it accepts %q", got)
		}
		if _, password, _ := q.BasicAuth(); password != "secret" {
			t.Errorf("the password is %q", password)
		}
		r.serve(w, r.data)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(s.Close)
	r.image.URL = strings.Replace(s.URL, "https://", "https://user:secret@", 1)
	r.download()
	r.failed(provider.ErrTransient, "certificate is not trusted")
	client := s.Client()
	client.Timeout = time.Nanosecond
	r.cache = r.process(r.pool, func(o *baseimage.Options) { o.HTTPClient = client })
	r.download()
	r.found()
	client.CloseIdleConnections()
}

// more is a transport whose answer has more than it announces, which net/http's own does not let through.
type more struct{ r *rig }

func (m more) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: int64(len(m.r.data)),
		Body: io.NopCloser(strings.NewReader(string(m.r.data) + "x"))}, nil
}

func TestMoreThanAnnounced(t *testing.T) {
	r := newRig(t, nil)
	r.cache = r.process(r.pool, func(o *baseimage.Options) { o.HTTPClient = &http.Client{Transport: more{r}} })
	r.download()
	r.failed(provider.ErrPermanent, "more than it announced")
}

// none is a body with nothing in it and no end.
type none struct{}

func (none) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: 512, Body: io.NopCloser(none{})}, nil
}

func (none) Read([]byte) (int, error) { return 0, nil }

func TestABodyWithoutProgress(t *testing.T) {
	r := newRig(t, nil)
	r.cache = r.process(r.pool, func(o *baseimage.Options) { o.HTTPClient = &http.Client{Transport: none{}} })
	r.download()
	r.failed(provider.ErrTransient)
}

func TestALimitOfItsOwn(t *testing.T) {
	r := newRig(t, nil)
	r.cache = r.process(r.pool, func(o *baseimage.Options) { o.MaxLength = int64(len(r.data)) - 1 })
	r.download()
	r.failed(provider.ErrPermanent, "more than the")
	r.cache = r.process(r.pool, func(o *baseimage.Options) { o.MaxLength = int64(len(r.data)) })
	r.download()
	r.found()
}

func TestFaultsOfThePool(t *testing.T) {
	for _, tc := range []struct {
		call  string
		n     int32
		err   error
		class error
	}{
		{"open", 1, errBoom, provider.ErrTransient},
		{"open", 1, fmt.Errorf("boom: %w", provider.ErrDenied), provider.ErrDenied},
		{"volumes", 1, errBoom, provider.ErrTransient},
		{"volumes", 2, errBoom, provider.ErrTransient},
		{"create", 1, errBoom, provider.ErrTransient},
		{"create", 1, quota("boom"), provider.ErrQuotaExceeded},
		{"create", 1, fmt.Errorf("boom: %w", provider.ErrPermanent), provider.ErrPermanent},
		{"upload", 1, errBoom, provider.ErrTransient},
		{"write", 3, errBoom, provider.ErrTransient},
		{"write", 3, quota("boom"), provider.ErrQuotaExceeded},
	} {
		t.Run(fmt.Sprintf("%s %d %v", tc.call, tc.n, tc.err), func(t *testing.T) {
			r := newRig(t, nil)
			r.pool.before = nth(tc.call, tc.n, tc.err)
			r.download()
			f := r.failed(tc.class, `image "debian": boom`)
			if wait := f.RetryAfter; wait != 30*time.Second && tc.class != provider.ErrPermanent {
				t.Errorf("next in %s", wait)
			}
			r.later()
			r.download()
			r.found()
		})
	}
	t.Run("create with effect", func(t *testing.T) {
		r := newRig(t, nil)
		r.pool.after = nth("create", 1, errBoom)
		r.download()
		r.failed(provider.ErrTransient, "boom")
	})
}

// Names of volumes are different each time; they are no part of a message.
func TestMessagesNameNoVolume(t *testing.T) {
	r := newRig(t, nil)
	r.pool.before = func(_ context.Context, call, name string) error {
		if call == "create" {
			return fmt.Errorf("volume '%s' and '%s' at http://u:secret@h/x?secret=1 %s", name, name+ready, strings.Repeat("long ", 1000))
		}
		return nil
	}
	r.download()
	f := r.failed(provider.ErrTransient, "volume '…' and '…' at")
	if strings.Contains(f.Error(), "secret") || len(f.Error()) > 512 {
		t.Errorf("it says %s", f)
	}
}

// A pool that says it has taken everything when it has not.
func TestAPoolThatLosesSome(t *testing.T) {
	r := newRig(t, nil)
	lossy := func(ctx context.Context) (baseimage.Store, io.Closer, error) {
		_, c, err := r.pool.connect(ctx)
		return short{r.pool}, c, err
	}
	r.cache = r.process(r.pool, func(o *baseimage.Options) { o.Open = lossy })
	r.download()
	r.failed(provider.ErrTransient, "took only a part")
}

type short struct{ *pool }

func (s short) Upload(ctx context.Context, name string, r io.Reader, length int64) error {
	return s.pool.Upload(ctx, name, io.LimitReader(r, length-1), length-1)
}

func TestFailuresAreOfOneClass(t *testing.T) {
	r := newRig(t, nil)
	r.pool.before = nth("create", 1, quota("boom"))
	r.download()
	err := r.cache.Prepare(t.Context(), r.image)
	for _, c := range []error{provider.ErrTransient, provider.ErrPermanent, provider.ErrDenied, provider.ErrNotFound} {
		if errors.Is(err, c) {
			t.Errorf("%v is %v, too", err, c)
		}
	}
}
