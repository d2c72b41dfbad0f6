package dashboard

import "strings"

// Row is a row of panels with a title.
type Row struct {
	Title  string
	Panels []Panel
}

// Panel is one panel as people describe it.
type Panel struct {
	Title, Description string
	// Unit is one of Grafana's unit IDs, "s" or "reqps" for example.
	Unit    string
	Queries []Query
	// Stacked shows parts of a whole.
	Stacked bool
	// Stat shows the last value as a number instead of a graph, Bad the value from which it is red (0: never).
	Stat bool
	Bad  float64
	// Page is the page to read on, below docs/.
	Page string
	// Width is of 24 columns; 0 for 8.
	Width int
}

// Query is one expression of a panel. In Expr, "@" stands for the labels that choose the operator, "@p" for these and the
// provider, "@n" for these and the namespace of Proxies, and "[r]" for the range that Grafana finds right for rates.
type Query struct{ Expr, Legend string }

// The labels by which the variables choose.
const (
	here       = `job=~"$job"`
	provided   = here + `,provider=~"$provider"`
	namespaced = here + `,namespace=~"$namespace"`
)

func (q Query) expression() string {
	return strings.NewReplacer("@p", provided, "@n", namespaced, "@", here, "[r]", "[$__rate_interval]").Replace(q.Expr)
}

// one is a panel with a single query.
func one(title, unit, expr, legend, description string) Panel {
	return Panel{Title: title, Unit: unit, Queries: []Query{{Expr: expr, Legend: legend}}, Description: description}
}

func (p Panel) stacked() Panel { p.Stacked = true; return p }

func (p Panel) read(page string) Panel { p.Page = page; return p }

func (p Panel) also(expr, legend string) Panel {
	p.Queries = append(p.Queries, Query{Expr: expr, Legend: legend})
	return p
}

// quantiles is a panel of a histogram's median and 99th percentile; matchers are "@" and the like.
func quantiles(title, metric, matchers, description string) Panel {
	at := func(q string) string {
		return "histogram_quantile(" + q + ", sum by (le) (rate(" + metric + "_bucket{" + matchers + "}[r])))"
	}
	return one(title, "s", at("0.5"), "p50", description).also(at("0.99"), "p99")
}

// Rows returns the rows from top to bottom: from what people on call look at first to what explains it.
func Rows() []Row {
	return []Row{glance(), leases(), api(), fleet(), bans(), health(), providers(), reconciler(), collector(), configuration(), process()}
}
