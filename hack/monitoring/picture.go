package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/hack/monitoring/dashboard"
	"github.com/egress-proxies/egress-proxies-operator/hack/monitoring/prom"
)

// drawn is what hack/monitoring/plot draws. Times are seconds since the beginning of the run.
type drawn struct {
	Rows []drawnRow `json:"rows"`
}

type drawnRow struct {
	Title  string       `json:"title"`
	Panels []drawnPanel `json:"panels"`
}

type drawnPanel struct {
	Title   string      `json:"title"`
	Unit    string      `json:"unit"`
	Stat    bool        `json:"stat"`
	Stacked bool        `json:"stacked"`
	Lines   []drawnLine `json:"lines"`
}

type drawnLine struct {
	Name string       `json:"name"`
	At   [][2]float64 `json:"at"`
}

// draw hands the data to the program that draws, which is a module of its own: what it requires, the operator does not.
func (r *run) draw(ctx context.Context, graphs []graph) error {
	data, err := json.Marshal(r.drawing(graphs))
	if err != nil {
		return err
	}
	file := filepath.Join(r.dir, "graphs.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return err
	}
	picture, err := filepath.Abs(r.picture)
	if err != nil {
		return err
	}
	return command(ctx, "go", "-C", "hack/monitoring/plot", "run", ".", "-from", file, "-to", picture)
}

func (r *run) drawing(graphs []graph) (d drawn) {
	begin := float64(r.from.UnixMilli()) / 1000
	next := 0
	for _, p := range r.board.Panels {
		if p.Type == "row" {
			d.Rows = append(d.Rows, drawnRow{Title: p.Title})
			continue
		}
		g := graphs[next]
		next++
		out := drawnPanel{Title: p.Title, Unit: p.Unit(), Stat: p.Type == "stat", Stacked: p.Stacked()}
		for i, series := range g.lines {
			for _, s := range series {
				line := drawnLine{Name: legend(g.panel.Targets[i], s)}
				for _, point := range s.Points {
					line.At = append(line.At, [2]float64{point.At - begin, point.Value})
				}
				out.Lines = append(out.Lines, line)
			}
		}
		last := &d.Rows[len(d.Rows)-1]
		last.Panels = append(last.Panels, out)
	}
	return d
}

// legend fills a legend in as Grafana does.
func legend(t dashboard.Target, s prom.Series) string {
	out := t.LegendFormat
	for label, value := range s.Labels {
		out = strings.ReplaceAll(out, "{{"+label+"}}", value)
	}
	for {
		before, rest, found := strings.Cut(out, "{{")
		_, after, closed := strings.Cut(rest, "}}")
		if !found || !closed {
			return out
		}
		out = before + after
	}
}
