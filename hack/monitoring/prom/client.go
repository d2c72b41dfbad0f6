package prom

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client asks a Prometheus over its HTTP API. Its calls block for the answer, at most for HTTP's timeout.
type Client struct {
	Base string
	HTTP *http.Client
}

// Series is one line of a graph.
type Series struct {
	Labels map[string]string
	Points []Point
}

// Point is a value at a time, in seconds since 1970.
type Point struct{ At, Value float64 }

// UnmarshalJSON implements json.Unmarshaler: [time, "value"].
func (p *Point) UnmarshalJSON(data []byte) error {
	var pair [2]json.RawMessage
	if err := json.Unmarshal(data, &pair); err != nil {
		return err
	}
	var text string
	if err := json.Unmarshal(pair[0], &p.At); err != nil {
		return err
	}
	if err := json.Unmarshal(pair[1], &text); err != nil {
		return err
	}
	value, err := strconv.ParseFloat(text, 64)
	p.Value = value
	return err
}

// Range evaluates expr from one time to another and returns the series with their finite points; series without any are
// left out. It errors when Prometheus does not take the expression.
func (c Client) Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) (out []Series, err error) {
	var answer struct {
		Result []struct {
			Metric map[string]string
			Values []Point
		}
	}
	seconds := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }
	err = c.get(ctx, "query_range", url.Values{"query": {expr}, "start": {seconds(from)}, "end": {seconds(to)}, "step": {fmt.Sprint(step.Seconds())}}, &answer)
	for _, r := range answer.Result {
		s := Series{Labels: r.Metric}
		for _, p := range r.Values {
			if !math.IsNaN(p.Value) && !math.IsInf(p.Value, 0) {
				s.Points = append(s.Points, p)
			}
		}
		if len(s.Points) > 0 {
			out = append(out, s)
		}
	}
	return out, err
}

// True reports whether expr has a result now.
func (c Client) True(ctx context.Context, expr string) (bool, error) {
	var answer struct{ Result []json.RawMessage }
	err := c.get(ctx, "query", url.Values{"query": {expr}}, &answer)
	return len(answer.Result) > 0, err
}

// Rule is what Prometheus says of a rule it has loaded.
type Rule struct {
	Name, Type, Query, Health, LastError, State string
	EvaluationTime                              float64
}

// Rules returns all rules that are loaded.
func (c Client) Rules(ctx context.Context) (out []Rule, err error) {
	var answer struct{ Groups []struct{ Rules []Rule } }
	err = c.get(ctx, "rules", nil, &answer)
	for _, g := range answer.Groups {
		out = append(out, g.Rules...)
	}
	return out, err
}

func (c Client) get(ctx context.Context, what string, q url.Values, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Base+"/api/v1/"+what+"?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // read to its end below
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	var envelope struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(data, &envelope); err != nil {
		return fmt.Errorf("%s: %s: %s", what, res.Status, strings.TrimSpace(string(data)))
	}
	if envelope.Status != "success" {
		return fmt.Errorf("%s: %s", what, envelope.Error)
	}
	return json.Unmarshal(envelope.Data, into)
}
