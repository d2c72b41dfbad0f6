package dashboard

import (
	"errors"
	"fmt"
)

// Check returns what Grafana would stumble over or people would miss: IDs that are not unique, panels that overlap or leave
// the grid, and panels without title, description, unit, data source or query.
func (d Document) Check() error {
	var errs []error
	wrong := func(p Drawn, format string, args ...any) {
		errs = append(errs, fmt.Errorf("panel %d (%s): %s", p.ID, p.Title, fmt.Sprintf(format, args...)))
	}
	panels := d.all()
	ids := map[int]bool{}
	for i, p := range panels {
		if p.ID <= 0 || ids[p.ID] {
			wrong(p, "its ID is not unique, or not positive")
		}
		ids[p.ID] = true
		if g := p.GridPos; g.X < 0 || g.Y < 0 || g.W < 1 || g.H < 1 || g.X+g.W > gridWidth {
			wrong(p, "%+v is outside of the grid", g)
		}
		for _, other := range panels[:i] {
			if p.GridPos.overlaps(other.GridPos) {
				wrong(p, "it overlaps panel %d (%s)", other.ID, other.Title)
			}
		}
		if p.Title == "" {
			wrong(p, "it has no title")
		}
	}
	for _, p := range d.Graphs() {
		if err := p.complete(); err != nil {
			wrong(p, "%v", err)
		}
	}
	return errors.Join(errs...)
}

func (p Place) overlaps(o Place) bool {
	return p.X < o.X+o.W && o.X < p.X+p.W && p.Y < o.Y+o.H && o.Y < p.Y+p.H
}

func (p Drawn) complete() error {
	switch {
	case p.Type != "timeseries" && p.Type != "stat":
		return fmt.Errorf("its type is %q", p.Type)
	case p.Description == "":
		return errors.New("it has no description")
	case p.Unit() == "":
		return errors.New("it has no unit")
	case p.Datasource == nil || *p.Datasource != prometheus():
		return errors.New("its data source is not the variable")
	case len(p.Targets) == 0:
		return errors.New("it has no query")
	}
	refs := map[string]bool{}
	for _, t := range p.Targets {
		if t.Expr == "" || t.RefID == "" || refs[t.RefID] || t.Datasource != prometheus() {
			return fmt.Errorf("query %q has no expression, no reference of its own, or another data source", t.RefID)
		}
		refs[t.RefID] = true
	}
	return nil
}

// Unit returns the unit of the panel's values.
func (p Drawn) Unit() string {
	if p.FieldConfig == nil {
		return ""
	}
	unit, _ := p.FieldConfig.Defaults["unit"].(string)
	return unit
}

// Stacked reports whether the panel shows its values on top of each other.
func (p Drawn) Stacked() bool {
	if p.FieldConfig == nil {
		return false
	}
	custom, _ := p.FieldConfig.Defaults["custom"].(map[string]any)
	stacking, _ := custom["stacking"].(map[string]any)
	return stacking["mode"] == "normal"
}
