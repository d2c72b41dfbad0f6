package main

import (
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/hack/monitoring/dashboard"
	"github.com/egress-proxies/egress-proxies-operator/hack/monitoring/prom"
)

func TestLegend(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"provider": "gcp", "op": "get"}
	for format, want := range map[string]string{
		"{{provider}} {{op}}": "gcp get", "p99": "p99", "": "", "{{absent}}/{{op}}": "/get", "p99 {{absent}}": "p99 ", "{{op": "{{op",
	} {
		if got := legend(dashboard.Target{LegendFormat: format}, prom.Series{Labels: labels}); got != want {
			t.Errorf("%q becomes %q, want %q", format, got, want)
		}
	}
}

// TestTheDrawingHasEveryPanel sees that each panel is drawn with its own data: they are told apart by their order alone.
func TestTheDrawingHasEveryPanel(t *testing.T) {
	t.Parallel()
	r := &run{board: dashboard.Build(dashboard.Rows())}
	var graphs []graph
	for i, p := range r.board.Graphs() {
		g := graph{panel: p}
		for range p.Targets {
			g.lines = append(g.lines, []prom.Series{{Points: []prom.Point{{At: 1, Value: float64(i)}}}})
		}
		graphs = append(graphs, g)
	}
	drawn := r.drawing(graphs)
	n := 0
	for i, row := range drawn.Rows {
		want := dashboard.Rows()[i]
		if row.Title != want.Title || len(row.Panels) != len(want.Panels) {
			t.Errorf("row %d is %s with %d panels, want %s with %d", i, row.Title, len(row.Panels), want.Title, len(want.Panels))
		}
		for _, p := range row.Panels {
			if p.Title != graphs[n].panel.Title || len(p.Lines) != len(graphs[n].panel.Targets) || p.Lines[0].At[0][1] != float64(n) {
				t.Errorf("panel %d is %s with %v, want %s", n, p.Title, p.Lines, graphs[n].panel.Title)
			}
			n++
		}
	}
	if n != len(graphs) {
		t.Errorf("%d panels are drawn, want %d", n, len(graphs))
	}
}
