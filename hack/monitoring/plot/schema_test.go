package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// TestTheDashboardIsWhatGrafanaKnows holds the file against Grafana's own schema, with all that it has of panels and queries:
// a member with a typo, or of another type, is an error.
func TestTheDashboardIsWhatGrafanaKnows(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../config/monitoring/dashboard/egress-proxies.json")
	if err != nil {
		t.Fatal(err)
	}
	// What is there for the import alone is no part of the schema.
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		t.Fatal(err)
	}
	delete(members, "__inputs")
	delete(members, "__requires")
	if data, err = json.Marshal(members); err != nil {
		t.Fatal(err)
	}
	plugins.RegisterDefaultPlugins()
	var d dashboard.Dashboard //nolint:staticcheck // its successor is of Grafana 12 and later, which take this one, too
	// Without anything wrong the library can return an error that says nothing.
	if err := d.UnmarshalJSONStrict(data); err != nil && strings.TrimSpace(err.Error()) != "" {
		t.Fatal(err)
	}
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
}
