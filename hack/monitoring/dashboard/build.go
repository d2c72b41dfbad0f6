package dashboard

import (
	"path"
	"strings"
)

// docs is where the pages are that panels lead to.
const docs = "https://github.com/egress-proxies/egress-proxies-operator/blob/main/docs/"

const (
	gridWidth    = 24
	graphHeight  = 8
	statHeight   = 4
	defaultWidth = 8
)

func prometheus() Source { return Source{Type: "prometheus", UID: "${datasource}"} }

func page(title, file string) Link {
	return Link{Title: title, Type: "link", Icon: "doc", Tags: []string{}, URL: docs + file, TargetBlank: true}
}

// Build places the rows and returns the document.
func Build(rows []Row) Document {
	d := Document{
		Inputs: []Input{{
			Name: "DS_PROMETHEUS", Label: "Prometheus", Type: "datasource", PluginID: "prometheus", PluginName: "Prometheus",
			Description: "The Prometheus that scrapes the operator",
		}},
		Requires: []Require{
			{Type: "grafana", ID: "grafana", Name: "Grafana", Version: "10.4.0"},
			{Type: "datasource", ID: "prometheus", Name: "Prometheus", Version: "1.0.0"},
			{Type: "panel", ID: "timeseries", Name: "Time series"}, {Type: "panel", ID: "stat", Name: "Stat"},
		},
		Annotations: Annotations{List: []Annotation{{
			Name: "Changes of the leader", Datasource: prometheus(), Enable: true, IconColor: "orange", TitleText: "{{instance}} leads",
			Expr: Query{Expr: "proxy_operator_leader{@} == 1 unless (proxy_operator_leader{@} offset $__interval == 1)"}.expression(),
		}}},
		Description: "egress-proxies-operator: why crawlers get no lease, and what stands behind it.",
		Editable:    true, GraphTooltip: 1, Refresh: "30s", SchemaVersion: 39, Tags: []string{"egress-proxies-operator"},
		Links: []Link{
			page("From symptom to cause", "operations.md"),
			page("Runbooks", "runbooks"),
			page("What the metrics mean", "metrics.md"),
		},
		Templating: Templating{List: variables()},
		Time:       Span{From: "now-1h", To: "now"}, Timezone: "browser", Title: "Egress proxies", UID: "egress-proxies-operator", Version: 1,
	}
	d.Panels = place(rows)
	return d
}

// place puts one row below the other, and panels beside each other while there is room.
func place(rows []Row) (out []Drawn) {
	y := 0
	add := func(p Drawn) {
		p.ID = len(out) + 1
		out = append(out, p)
	}
	open := false
	for _, r := range rows {
		add(Drawn{Type: "row", Title: r.Title, Collapsed: &open, Panels: []Drawn{}, GridPos: Place{X: 0, Y: y, W: gridWidth, H: 1}})
		y++
		x, tallest := 0, 0
		for _, p := range r.Panels {
			drawn := p.draw()
			if x+drawn.GridPos.W > gridWidth {
				x, y, tallest = 0, y+tallest, 0
			}
			drawn.GridPos.X, drawn.GridPos.Y = x, y
			x, tallest = x+drawn.GridPos.W, max(tallest, drawn.GridPos.H)
			add(drawn)
		}
		y += tallest
	}
	return out
}

func (p Panel) draw() Drawn {
	source := prometheus()
	d := Drawn{
		Type: "timeseries", Title: p.Title, Description: p.Description, Datasource: &source,
		GridPos: Place{W: p.Width, H: graphHeight}, FieldConfig: p.fields(),
		Options: map[string]any{
			"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
		},
	}
	if p.Width == 0 {
		d.GridPos.W = defaultWidth
	}
	if p.Stat {
		d.Type, d.GridPos.H = "stat", statHeight
		d.Options = map[string]any{
			"colorMode": "value", "graphMode": "area", "justifyMode": "auto", "orientation": "auto", "textMode": "value", "wideLayout": true,
			"showPercentChange": false, "percentChangeColorMode": "standard",
			"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
		}
	}
	if p.Page != "" {
		d.Links = []Link{page(strings.TrimSuffix(path.Base(p.Page), ".md"), p.Page)}
	}
	for i, q := range p.Queries {
		d.Targets = append(d.Targets, Target{
			RefID: string(rune('A' + i)), Datasource: source, EditorMode: "code", Expr: q.expression(), LegendFormat: q.Legend, Range: true,
		})
	}
	return d
}

// fields says how values are shown: from zero, so that small changes do not look large, and with gaps where nothing was.
func (p Panel) fields() *FieldConfig {
	steps := []map[string]any{{"color": "green", "value": nil}}
	if p.Bad != 0 {
		steps = append(steps, map[string]any{"color": "red", "value": p.Bad})
	}
	defaults := map[string]any{"unit": p.Unit, "min": 0, "thresholds": map[string]any{"mode": "absolute", "steps": steps}}
	if !p.Stat {
		stacking := map[string]any{"mode": "none", "group": "A"}
		fill := 0
		if p.Stacked {
			stacking["mode"], fill = "normal", 30
		}
		defaults["color"] = map[string]any{"mode": "palette-classic"}
		defaults["custom"] = map[string]any{
			"drawStyle": "line", "lineWidth": 1, "fillOpacity": fill, "stacking": stacking, "spanNulls": false, "showPoints": "never",
		}
	}
	return &FieldConfig{Defaults: defaults, Overrides: []any{}}
}
