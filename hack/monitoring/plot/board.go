package main

// Board is what is drawn. Times are seconds since the beginning of the run.
type Board struct {
	Rows []Row `json:"rows"`
}

// Row is a row of panels with a title.
type Row struct {
	Title  string  `json:"title"`
	Panels []Panel `json:"panels"`
}

// Panel is one graph, or the last value as a number.
type Panel struct {
	Title   string `json:"title"`
	Unit    string `json:"unit"`
	Stat    bool   `json:"stat"`
	Stacked bool   `json:"stacked"`
	Lines   []Line `json:"lines"`
}

// Line is a series: times and values.
type Line struct {
	Name string       `json:"name"`
	At   [][2]float64 `json:"at"`
}

// end is the last moment that any line shows, at least a second.
func (b Board) end() float64 {
	last := 1.0
	for _, r := range b.Rows {
		for _, p := range r.Panels {
			for _, l := range p.Lines {
				for _, at := range l.At {
					last = max(last, at[0])
				}
			}
		}
	}
	return last
}
