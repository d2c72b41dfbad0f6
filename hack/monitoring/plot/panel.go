package main

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
)

// mostLines bounds the lines of one panel and so its legend: those with the largest values are drawn.
const mostLines = 6

func style(size vg.Length, bold bool) text.Style {
	f := plot.DefaultFont
	f.Variant, f.Size = "Sans", size
	if bold {
		f.Weight = font.WeightBold
	}
	return text.Style{Color: color.Black, Font: f, Handler: plot.DefaultTextHandler}
}

// draw draws the panel for the time from 0 to end.
func (p Panel) draw(area vgdraw.Canvas, end float64) error {
	if p.Stat {
		p.drawStat(area)
		return nil
	}
	lines, more := p.shown()
	graph := plot.New()
	area.FillText(style(9, true), vg.Point{X: area.Min.X, Y: area.Max.Y - 10}, p.Title)
	area.Max.Y -= 13
	graph.BackgroundColor = nil
	for _, axis := range []*plot.Axis{&graph.X, &graph.Y} {
		axis.Tick.Label.Font = style(7, false).Font
		axis.Tick.Length, axis.Padding = 2, 1
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = color.Gray{0x88}, color.Gray{0x88}
	}
	graph.X.Tick.Marker = seconds{}
	graph.Y.Tick.Marker = unit(p.Unit)
	graph.Legend.TextStyle = style(7, false)
	graph.Legend.Top, graph.Legend.Left, graph.Legend.ThumbnailWidth, graph.Legend.Padding = true, true, 6, 1
	highest := 0.0
	for i, l := range lines {
		c := colours()[i]
		line, err := plotter.NewLine(points(l))
		if err != nil {
			return fmt.Errorf("%s: %s: %w", p.Title, l.Name, err)
		}
		line.Color, line.Width = c, 1
		if p.Stacked {
			line.FillColor = pale(c)
		}
		graph.Add(line)
		graph.Legend.Add(shorten(l.Name), line)
		for _, at := range l.At {
			highest = max(highest, at[1])
		}
	}
	if more > 0 {
		graph.Legend.Add(fmt.Sprintf("and %d more", more))
	}
	// Room above the lines for the legend.
	graph.Y.Min, graph.Y.Max = 0, max(highest, tiny(p.Unit))*(1.15+0.14*float64(len(lines)))
	graph.X.Min, graph.X.Max = 0, end
	graph.Draw(area)
	return nil
}

func (p Panel) drawStat(area vgdraw.Canvas) {
	value := "no data"
	if len(p.Lines) > 0 {
		at := p.Lines[0].At
		value = format(at[len(at)-1][1], p.Unit)
	}
	area.FillText(style(9, true), vg.Point{X: area.Min.X, Y: area.Max.Y - 10}, p.Title)
	area.FillText(style(18, false), vg.Point{X: area.Min.X, Y: area.Max.Y - 32}, value)
}

// shown returns the lines to draw, the largest first, each on top of those after it where they are stacked.
func (p Panel) shown() (lines []Line, more int) {
	lines = slices.Clone(p.Lines)
	slices.SortStableFunc(lines, func(a, b Line) int {
		if d := peak(b) - peak(a); d != 0 {
			return int(math.Copysign(1, d))
		}
		return strings.Compare(a.Name, b.Name)
	})
	if len(lines) > mostLines {
		lines, more = lines[:mostLines], len(lines)-mostLines
	}
	if p.Stacked {
		lines = stack(lines)
	}
	return lines, more
}

func peak(l Line) (highest float64) {
	for _, at := range l.At {
		highest = max(highest, at[1])
	}
	return highest
}

// stack adds to each line what lies below it: the lines after it. What has no value at a time counts as nothing there.
func stack(lines []Line) []Line {
	sums := map[float64]float64{}
	for _, l := range lines {
		for _, at := range l.At {
			sums[math.Round(at[0])] = 0
		}
	}
	var times []float64
	for at := range sums {
		times = append(times, at)
	}
	slices.Sort(times)
	out := make([]Line, len(lines))
	for i := len(lines) - 1; i >= 0; i-- {
		for _, at := range lines[i].At {
			sums[math.Round(at[0])] += at[1]
		}
		out[i].Name = lines[i].Name
		for _, at := range times {
			out[i].At = append(out[i].At, [2]float64{at, sums[at]})
		}
	}
	return out
}

func points(l Line) (out plotter.XYs) {
	for _, at := range l.At {
		out = append(out, plotter.XY{X: at[0], Y: at[1]})
	}
	return out
}

// shorten keeps a legend inside of its panel.
func shorten(name string) string {
	const most = 44
	if runes := []rune(name); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return name
}
