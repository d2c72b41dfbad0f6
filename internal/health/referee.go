package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	// refereeInterval is how often the judge URL is fetched, refereeSoon how often while a cause is suspected.
	refereeInterval, refereeSoon = 30 * time.Second, 5 * time.Second
	refereeTimeout               = 10 * time.Second
	maxJudgeURL                  = 2048
)

// referee knows whether the judge URL can be fetched from here, without any proxy. Engine.mu guards its fields.
type referee struct {
	url   string
	fetch func(ctx context.Context, url string) error
	// worked: it has done so since the start, or the status of a Proxy shows that it did before.
	worked bool
	// lastWorked and lastFailed are when the last fetch of either kind began, never before the first.
	lastWorked, lastFailed time.Duration
	// inRow counts the latest fetches that failed.
	inRow int
	// asked ends the pause between two fetches.
	asked chan struct{}
}

func newReferee(url string, fetch func(context.Context, string) error) *referee {
	return &referee{url: url, fetch: fetch, lastWorked: never, lastFailed: never, asked: make(chan struct{}, 1)}
}

// ask has the URL fetched soon.
func (r *referee) ask() {
	select {
	case r.asked <- struct{}{}:
	default:
	}
}

// worksSince reports whether the latest fetch worked and began at or after since.
func (r *referee) worksSince(since time.Duration) bool {
	return r.lastWorked >= since && r.lastWorked > r.lastFailed
}

// failedSince reports whether the latest fetch failed and began at or after since.
func (r *referee) failedSince(since time.Duration) bool {
	return r.lastFailed >= since && r.lastFailed > r.lastWorked
}

// judge fetches the judge URL again and again until ctx ends.
func (e *Engine) judge(ctx context.Context) {
	r := e.referee
	timer := e.opts.Clock.NewTimer(refereeInterval)
	defer timer.Stop()
	for {
		e.mu.Lock()
		began := e.now()
		e.mu.Unlock()
		err := r.fetch(ctx, r.url)
		if ctx.Err() != nil {
			return
		}
		e.mu.Lock()
		if err == nil {
			r.worked, r.lastWorked, r.inRow = true, began, 0
			for _, c := range e.causes {
				c.absolve(began)
			}
		} else {
			r.lastFailed = began
			r.inRow++
		}
		told := e.weighAll(e.now())
		pause := refereeInterval
		for _, c := range e.causes {
			if c.since != never {
				pause = refereeSoon
			}
		}
		e.mu.Unlock()
		if err != nil {
			e.opts.Logger.V(1).Info("The judge url cannot be fetched", "error", err.Error())
		}
		e.tell(told)
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		case <-r.asked:
			timer.Stop()
		}
	}
}

// CheckJudgeURL says what is wrong with a judge URL. The error does not repeat it.
func CheckJudgeURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case len(raw) > maxJudgeURL:
		return fmt.Errorf("longer than %d bytes", maxJudgeURL)
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		return errAim
	case u.User != nil:
		return errors.New("must not carry credentials")
	}
	return nil
}

// fetchDirectly succeeds when url is answered with a 2xx status within ten seconds, without any proxy.
func fetchDirectly(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, refereeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return errAim
	}
	req.Header.Set("User-Agent", userAgent)
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeaderBytes}, // Proxy is nil: none, whatever the environment says
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		// The error repeats the URL, whose query may hold a token.
		if isTimeout(err) {
			return errors.New("timed out")
		}
		return errors.New("no answer: " + networkMessage(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxBodyBytes)); err != nil {
		return errors.New("the answer broke off")
	}
	if !success(resp.StatusCode) {
		return fmt.Errorf("answered with %s", statusText(resp.StatusCode))
	}
	return nil
}
