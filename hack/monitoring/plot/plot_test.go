package main

import (
	"bytes"
	"image/png"
	"math"
	"reflect"
	"testing"
)

func line(name string, values ...float64) Line {
	l := Line{Name: name}
	for i, v := range values {
		l.At = append(l.At, [2]float64{float64(i), v})
	}
	return l
}

func TestTheLargestLinesAreShown(t *testing.T) {
	t.Parallel()
	p := Panel{Lines: []Line{line("a", 1), line("b", 9), line("c", 3), line("d", 4), line("e", 5), line("f", 6), line("g", 7), line("h", 2, 8)}}
	lines, more := p.shown()
	var names string
	for _, l := range lines {
		names += l.Name
	}
	if names != "bhgfed" || more != 2 {
		t.Errorf("shown are %s and %d more, want bhgfed and 2 more", names, more)
	}
}

func TestStack(t *testing.T) {
	t.Parallel()
	late := Line{Name: "late", At: [][2]float64{{1.2, 10}}} // times of two series need not be the same to the millisecond
	got := stack([]Line{line("top", 1, 2), late, line("bottom", 5, 6, 7)})
	want := []Line{
		{Name: "top", At: [][2]float64{{0, 6}, {1, 18}, {2, 7}}},
		{Name: "late", At: [][2]float64{{0, 5}, {1, 16}, {2, 7}}},
		{Name: "bottom", At: [][2]float64{{0, 5}, {1, 6}, {2, 7}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("stacked:\n%v\nwant\n%v", got, want)
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value float64
		unit  string
		want  string
	}{
		{0, "s", "0 s"}, {0.0123, "s", "12.3 ms"}, {90, "s", "90 s"}, {0.5, "percentunit", "50 %"}, {3 << 20, "bytes", "3 MiB"},
		{2.5, "reqps", "2.5/s"}, {1024, "short", "1024"}, {3, "short", "3"},
	} {
		if got := format(c.value, c.unit); got != c.want {
			t.Errorf("%g %s is shown as %q, want %q", c.value, c.unit, got, c.want)
		}
	}
	for v, want := range map[float64]float64{0: 1, math.NaN(): 1, 0.03: 0.05, 1: 1, 1.1: 2, 51: 100} {
		if got := nice(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("the step for %g is %g, want %g", v, got, want)
		}
	}
}

func TestThePicture(t *testing.T) {
	t.Parallel()
	var many []Panel
	for range columns + 1 {
		many = append(many, Panel{Title: "graph", Unit: "short", Stacked: true, Lines: []Line{line("a", 1, 2), line("b", 3)}})
	}
	b := Board{Rows: []Row{
		{Title: "numbers", Panels: []Panel{{Title: "one", Stat: true, Lines: []Line{line("", 1, 2)}}, {Title: "none", Stat: true}}},
		{Title: "graphs", Panels: many},
		{Title: "nothing", Panels: []Panel{{Title: "empty", Unit: "s"}}},
	}}
	data, err := b.Picture()
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := picture.Bounds().Dy(), margin+3*headerHeight+statHeight+3*graphHeight; got != want || picture.Bounds().Dx() != width {
		t.Errorf("the picture is %v, want %d by %d", picture.Bounds(), width, want)
	}
}
