package logtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	// MaxLine bounds a line, in bytes: collectors cut longer ones apart.
	MaxLine = 64 << 10
	// timeLayout is that of the key ts.
	timeLayout = "2006-01-02T15:04:05.000Z0700"
)

// Levels are the values of the key level.
var levels = []string{"debug", "info", "error"}

// Line is one line of the log.
type Line struct {
	Level, Logger, Message string
	Time                   time.Time
	// Verbosity is n for a line of V(n); 0 for one of level error.
	Verbosity int
	// Values are the other keys.
	Values map[string]any
}

// Parse reads a line, without its end. It returns an error unless the line is one JSON object in valid UTF-8, has no key twice
// in any object of it, is at most MaxLine long, has keys of ASCII letters alone (libraries have blanks in some), and has level, ts,
// msg and, unless it is an error, v, each of its form.
func Parse(text string) (l Line, err error) {
	if len(text) > MaxLine {
		return l, fmt.Errorf("%d bytes, want at most %d", len(text), MaxLine)
	}
	var all map[string]any
	if err := json.Unmarshal([]byte(text), &all); err != nil { // refuses names that are repeated and what is no UTF-8
		return l, err
	}
	if all == nil {
		return l, errors.New("not an object")
	}
	for key := range all {
		if strings.ContainsFunc(key, func(c rune) bool { return c != ' ' && (c < 'A' || c > 'z' || c > 'Z' && c < 'a') }) || key == "" {
			err = errors.Join(err, fmt.Errorf("the key %q has more than letters", key))
		}
	}
	take := func(key string) string {
		v, ok := all[key].(string)
		if !ok {
			err = errors.Join(err, fmt.Errorf("the key %s is %v", key, all[key]))
		}
		delete(all, key)
		return v
	}
	l.Level, l.Message = take("level"), take("msg")
	var failed error
	if l.Time, failed = time.Parse(timeLayout, take("ts")); failed != nil {
		err = errors.Join(err, failed)
	}
	if _, named := all["logger"]; named {
		l.Logger = take("logger")
	}
	if !slices.Contains(levels, l.Level) {
		err = errors.Join(err, fmt.Errorf("the level is %q", l.Level)) // dpanic, for one: keys and values are not in pairs
	}
	if l.Message == "" || strings.TrimSpace(l.Message) != l.Message {
		err = errors.Join(err, fmt.Errorf("the message is %q", l.Message))
	}
	v, ok := all["v"].(float64)
	if l.Verbosity = int(v); l.Level != "error" && (!ok || v < 0 || (v == 0) != (l.Level == "info")) {
		err = errors.Join(err, fmt.Errorf("v is %v on a line of level %s", all["v"], l.Level))
	}
	delete(all, "v")
	l.Values = all
	return l, err
}

// ParseAll reads a log. What follows the last line break is left out: whoever wrote it was killed. problems name the lines.
func ParseAll(log string) (lines []Line, problems []error) {
	for text := range strings.Lines(log) {
		text, whole := strings.CutSuffix(text, "\n")
		if !whole {
			break
		}
		l, err := Parse(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("%w in %.2000s", err, text))
			continue
		}
		lines = append(lines, l)
	}
	return lines, problems
}
