package dashboard_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/hack/monitoring/dashboard"
)

func TestCheckFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*dashboard.Document)
		want  string
	}{
		"an ID twice":              {func(d *dashboard.Document) { d.Panels[2].ID = d.Panels[1].ID }, "unique"},
		"an overlap":               {func(d *dashboard.Document) { d.Panels[2].GridPos.X-- }, "overlaps"},
		"one below the row's head": {func(d *dashboard.Document) { d.Panels[1].GridPos.Y-- }, "overlaps"},
		"outside on the right":     {func(d *dashboard.Document) { d.Panels[8].GridPos.W++ }, "outside"},
		"no height":                {func(d *dashboard.Document) { d.Panels[8].GridPos.H = 0 }, "outside"},
		"no title":                 {func(d *dashboard.Document) { d.Panels[3].Title = "" }, "no title"},
		"no description":           {func(d *dashboard.Document) { d.Panels[3].Description = "" }, "no description"},
		"no unit":                  {func(d *dashboard.Document) { d.Panels[3].FieldConfig = nil }, "no unit"},
		"a fixed data source":      {func(d *dashboard.Document) { d.Panels[3].Datasource.UID = "mine" }, "data source"},
		"no query":                 {func(d *dashboard.Document) { d.Panels[3].Targets = nil }, "no query"},
		"an empty query":           {func(d *dashboard.Document) { d.Panels[3].Targets[0].Expr = "" }, "no expression"},
		"one reference for two": {func(d *dashboard.Document) {
			d.Panels[3].Targets = slices.Repeat(d.Panels[3].Targets, 2)
		}, "no reference of its own"},
		"another kind of panel": {func(d *dashboard.Document) { d.Panels[3].Type = "graph" }, "type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dashboard.Build(dashboard.Rows())
			if err := d.Check(); err != nil {
				t.Fatal(err)
			}
			c.spoil(&d)
			if err := d.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("found %v, want something about %q", err, c.want)
			}
		})
	}
}

func TestPanelsOfCollapsedRowsCount(t *testing.T) {
	t.Parallel()
	d, err := dashboard.Parse([]byte(`{"panels":[{"id":1,"type":"row","title":"r","gridPos":{"x":0,"y":0,"w":24,"h":1},
		"panels":[{"id":2,"type":"stat","title":"inner","gridPos":{"x":0,"y":1,"w":3,"h":4}}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if g := d.Graphs(); len(g) != 1 || g[0].Title != "inner" {
		t.Errorf("the panels are %v", g)
	}
}

func TestParseIsStrict(t *testing.T) {
	t.Parallel()
	if _, err := dashboard.Parse([]byte(`{"pannels":[]}`)); err == nil {
		t.Error("a member with a typo passes")
	}
}

func TestSubstitute(t *testing.T) {
	t.Parallel()
	values := map[string]string{"namespace": "n", "provider": "p|q", "__rate_interval": "10s", "name": "x"}
	for expr, want := range map[string]string{
		`a{namespace=~"$namespace"}`:    `a{namespace=~"n"}`,
		`rate(a[$__rate_interval])`:     `rate(a[10s])`,
		`a{p=~"${provider}"}`:           `a{p=~"p|q"}`,
		`a{p=~"${provider:regex}"}`:     `a{p=~"p|q"}`,
		`$namespaces`:                   `$namespaces`,
		`a{p=~"x$"}`:                    `a{p=~"x$"}`,
		`label_replace(a,"b","$1","c")`: `label_replace(a,"b","$1","c")`,
	} {
		if got, _ := dashboard.Substitute(expr, values); got != want {
			t.Errorf("%s becomes %s, want %s", expr, got, want)
		}
	}
	if _, missing := dashboard.Substitute("$b $a ${b:regex} $name", values); !slices.Equal(missing, []string{"a", "b"}) {
		t.Errorf("missing are %v", missing)
	}
}
