package prom_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/egress-proxies/egress-proxies-operator/hack/monitoring/prom"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client answers every request with status and body; asked gets the requests.
func client(t *testing.T, status int, body string, asked *[]*http.Request) prom.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return prom.Client{Base: s.URL, HTTP: s.Client()}
}

func TestRange(t *testing.T) {
	t.Parallel()
	var asked []*http.Request
	c := client(t, http.StatusOK, `{"status":"success","data":{"resultType":"matrix","result":[
		{"metric":{"a":"b"},"values":[[1.5,"2"],[2.5,"NaN"],[3.5,"+Inf"],[4.5,"-1e3"]]},{"metric":{},"values":[[1.5,"NaN"]]}]}}`, &asked)
	got, err := c.Range(t.Context(), `up{x="y"} > 0`, time.UnixMilli(1500), time.UnixMilli(4500), 500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	want := []prom.Series{{Labels: map[string]string{"a": "b"}, Points: []prom.Point{{At: 1.5, Value: 2}, {At: 4.5, Value: -1000}}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want what is finite: %v", got, want)
	}
	q := asked[0].URL.Query()
	if asked[0].URL.Path != "/api/v1/query_range" || q.Get("query") != `up{x="y"} > 0` || q.Get("start") != "1.500" || q.Get("end") != "4.500" || q.Get("step") != "0.5" {
		t.Errorf("asked for %s", asked[0].URL)
	}
}

func TestErrorsOfPrometheusAreErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status     int
		body, want string
	}{
		"a query that it does not take": {http.StatusBadRequest, `{"status":"error","errorType":"bad_data","error":"parse error: unexpected end"}`, "unexpected end"},
		"an error with status 200":      {http.StatusOK, `{"status":"error","error":"odd"}`, "odd"},
		"not JSON":                      {http.StatusServiceUnavailable, "Service Unavailable", "503"},
		"another shape":                 {http.StatusOK, `{"status":"success","data":{"result":7}}`, "cannot unmarshal"},
		"a value that is none":          {http.StatusOK, `{"status":"success","data":{"result":[{"values":[[1,"x"]]}]}}`, "invalid syntax"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []*http.Request
			_, err := client(t, c.status, c.body, &asked).Range(t.Context(), "up", time.Unix(0, 0), time.Unix(1, 0), time.Second)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestTrue(t *testing.T) {
	t.Parallel()
	for result, want := range map[string]bool{`[]`: false, `[{"metric":{},"value":[1,"0"]}]`: true} {
		var asked []*http.Request
		got, err := client(t, http.StatusOK, `{"status":"success","data":{"result":`+result+`}}`, &asked).True(t.Context(), "up")
		if err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", result, got, err, want)
		}
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	var asked []*http.Request
	got, err := client(t, http.StatusOK, `{"status":"success","data":{"groups":[{"rules":[{"name":"A","type":"alerting","health":"ok","state":"firing"}]},
		{"rules":[{"name":"r","type":"recording","health":"err","lastError":"many-to-many"}]}]}}`, &asked).Rules(t.Context())
	want := []prom.Rule{{Name: "A", Type: "alerting", Health: "ok", State: "firing"}, {Name: "r", Type: "recording", Health: "err", LastError: "many-to-many"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}
