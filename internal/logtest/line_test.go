package logtest_test

import (
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/logtest"
)

const (
	head = `"level":"info","ts":"2026-11-30T20:59:42.123Z","msg":"starting","v":0`
	good = `{"level":"debug","ts":"2026-11-30T20:59:42.123+0100","logger":"a.b","msg":"call","v":2,"unread":{"a":["b"]},"n":1}`
)

func TestALineIsReadStrictly(t *testing.T) {
	t.Parallel()
	for _, text := range []string{good, "{" + head + "}", `{"level":"error","ts":"2026-11-30T20:59:42.123Z","msg":"m","error":"e"}`} {
		if l, err := logtest.Parse(text); err != nil || l.Message == "" || l.Time.IsZero() {
			t.Errorf("%s: %v, %+v", text, err, l)
		}
	}
	for reason, text := range map[string]string{
		"a key twice":                       `{` + head + `,"name":"a","name":"a"}`,
		"the message twice":                 `{` + head + `,"msg":"a"}`,
		"a key twice inside":                `{` + head + `,"at":{"b":[{"c":1,"c":2}]}}`,
		"a key twice, escaped":              `{` + head + `,"name":1,"n\u0061me":2}`,
		"a key that something was cut off":  `{` + head + `,"ab…":false}`,
		"not UTF-8":                         "{" + head + ",\"name\":\"a\xff\"}",
		"half a surrogate":                  `{` + head + `,"name":"\ud800"}`,
		"text":                              "operator: it failed",
		"two objects":                       "{" + head + "}{" + head + "}",
		"half an object":                    "{" + head,
		"a list":                            "[" + head + "]",
		"null":                              "null",
		"nothing":                           "",
		"no level":                          `{"ts":"2026-11-30T20:59:42.123Z","msg":"m","v":0}`,
		"a level that collectors mistake":   `{"level":"Level(-2)","ts":"2026-11-30T20:59:42.123Z","msg":"m","v":2}`,
		"keys and values not in pairs":      `{"level":"dpanic","ts":"2026-11-30T20:59:42.123Z","msg":"odd number of arguments passed","v":0}`,
		"no time":                           `{"level":"info","msg":"m","v":0}`,
		"a number as time":                  `{"level":"info","ts":1.5,"msg":"m","v":0}`,
		"another time":                      `{"level":"info","ts":"20:59","msg":"m","v":0}`,
		"no message":                        `{"level":"info","ts":"2026-11-30T20:59:42.123Z","v":0}`,
		"an empty message":                  `{"level":"info","ts":"2026-11-30T20:59:42.123Z","msg":"","v":0}`,
		"a message with a line break":       `{"level":"info","ts":"2026-11-30T20:59:42.123Z","msg":"m\n","v":0}`,
		"no verbosity":                      `{"level":"info","ts":"2026-11-30T20:59:42.123Z","msg":"m"}`,
		"a verbosity that is not the level": `{"level":"info","ts":"2026-11-30T20:59:42.123Z","msg":"m","v":2}`,
		"too long":                          `{` + head + `,"name":"` + strings.Repeat("x", logtest.MaxLine) + `"}`,
	} {
		if l, err := logtest.Parse(text); err == nil {
			t.Errorf("%s passes: %.200s as %+v", reason, text, l)
		}
	}
}

func TestALogIsReadToItsLastWholeLine(t *testing.T) {
	t.Parallel()
	lines, problems := logtest.ParseAll(good + "\n{" + head + "}\nwhat is that\n" + good[:20])
	if len(lines) != 2 || len(problems) != 1 || !strings.Contains(problems[0].Error(), "what is that") {
		t.Errorf("%d lines, problems %v", len(lines), problems)
	}
	if l := lines[0]; l.Level != "debug" || l.Verbosity != 2 || l.Logger != "a.b" || l.Message != "call" || l.Values["n"] != 1.0 || len(l.Values) != 2 {
		t.Errorf("%+v", l)
	}
}
