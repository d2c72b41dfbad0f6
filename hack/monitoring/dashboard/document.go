package dashboard

// Document is a dashboard as Grafana imports it, as far as this one uses it.
type Document struct {
	Inputs        []Input     `json:"__inputs,omitempty"`
	Requires      []Require   `json:"__requires,omitempty"`
	Annotations   Annotations `json:"annotations"`
	Description   string      `json:"description"`
	Editable      bool        `json:"editable"`
	GraphTooltip  int         `json:"graphTooltip"`
	Links         []Link      `json:"links"`
	Panels        []Drawn     `json:"panels"`
	Refresh       string      `json:"refresh"`
	SchemaVersion int         `json:"schemaVersion"`
	Tags          []string    `json:"tags"`
	Templating    Templating  `json:"templating"`
	Time          Span        `json:"time"`
	Timezone      string      `json:"timezone"`
	Title         string      `json:"title"`
	UID           string      `json:"uid"`
	Version       int         `json:"version"`
}

// Input is what Grafana asks for when somebody imports the dashboard.
type Input struct {
	Name        string `json:"name"`
	Label       string `json:"label"`
	Description string `json:"description"`
	Type        string `json:"type"`
	PluginID    string `json:"pluginId"`
	PluginName  string `json:"pluginName"`
}

// Require is what the dashboard needs of Grafana.
type Require struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Annotations holds what is drawn across all graphs.
type Annotations struct {
	List []Annotation `json:"list"`
}

// Annotation marks moments.
type Annotation struct {
	Name       string `json:"name"`
	Datasource Source `json:"datasource"`
	Enable     bool   `json:"enable"`
	IconColor  string `json:"iconColor"`
	Expr       string `json:"expr"`
	TitleText  string `json:"titleFormat"`
}

// Source names a data source.
type Source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Link leads out of the dashboard.
type Link struct {
	Title       string   `json:"title"`
	Type        string   `json:"type"`
	Icon        string   `json:"icon"`
	Tooltip     string   `json:"tooltip"`
	URL         string   `json:"url"`
	Tags        []string `json:"tags"`
	AsDropdown  bool     `json:"asDropdown"`
	TargetBlank bool     `json:"targetBlank"`
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
}

// Templating holds the variables.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is one that people choose by.
type Variable struct {
	Name        string  `json:"name"`
	Label       string  `json:"label"`
	Description string  `json:"description"`
	Type        string  `json:"type"`
	Datasource  *Source `json:"datasource,omitempty"`
	Query       any     `json:"query"`
	Refresh     int     `json:"refresh"`
	Sort        int     `json:"sort,omitempty"`
	IncludeAll  bool    `json:"includeAll"`
	AllValue    string  `json:"allValue,omitempty"`
	Multi       bool    `json:"multi"`
	Current     Current `json:"current"`
}

// Current is the choice that the dashboard opens with.
type Current struct {
	Selected bool `json:"selected"`
	Text     any  `json:"text"`
	Value    any  `json:"value"`
}

// Span is the time that is shown.
type Span struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Drawn is a panel, or the title of a row, at its place.
type Drawn struct {
	ID          int            `json:"id"`
	Type        string         `json:"type"`
	Title       string         `json:"title"`
	Description string         `json:"description,omitempty"`
	GridPos     Place          `json:"gridPos"`
	Collapsed   *bool          `json:"collapsed,omitempty"` // of rows
	Panels      []Drawn        `json:"panels,omitzero"`     // of rows that are collapsed
	Datasource  *Source        `json:"datasource,omitempty"`
	Links       []Link         `json:"links,omitempty"`
	FieldConfig *FieldConfig   `json:"fieldConfig,omitempty"`
	Options     map[string]any `json:"options,omitempty"`
	Targets     []Target       `json:"targets,omitempty"`
}

// Place is where a panel is, in units of the grid, which is 24 wide.
type Place struct {
	X int `json:"x"`
	Y int `json:"y"`
	W int `json:"w"`
	H int `json:"h"`
}

// FieldConfig says how values are shown.
type FieldConfig struct {
	Defaults  map[string]any `json:"defaults"`
	Overrides []any          `json:"overrides"`
}

// Target is one query.
type Target struct {
	RefID        string `json:"refId"`
	Datasource   Source `json:"datasource"`
	EditorMode   string `json:"editorMode"`
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
	Range        bool   `json:"range"`
	Instant      bool   `json:"instant"`
}
