package guest

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestRunTellsTheEndOfWhatFailed(t *testing.T) {
	err := run(t.Context(), io.Discard, "sh", "-c", "seq 100; echo no such mirror >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.HasSuffix(err.Error(), "no such mirror") || strings.Contains(err.Error(), "\n50\n") {
		t.Errorf("got %v", err)
	}
}

func TestTickerTellsTheLastLineNowAndThen(t *testing.T) {
	var told strings.Builder
	began := time.Now()
	ticks := newTicker(&told, began)
	for _, text := range []string{"I: downloading\r", "I: unpack", "ing\n"} {
		if _, err := ticks.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if told.Len() > 0 {
		t.Errorf("told at once: %q", told.String())
	}
	ticks.told = began.Add(-tick)
	if _, err := ticks.Write([]byte("I: half")); err != nil {
		t.Fatal(err)
	}
	if got := told.String(); !strings.HasSuffix(got, " s  unpacking\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("told %q", got)
	}
}
