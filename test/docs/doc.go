// Package docs holds every page of this repository to the rest of it: links and anchors lead somewhere, and every flag, metric,
// condition, reason, field, variable, Make target and file that a page names exists. Manifests are applied to a real API
// server, configurations of providers are built, JSON is parsed. Package walk beside it follows the pages that say how to
// begin, command by command.
//
// A page is read as its reader reads it. What looks like one of our names and is another program's stands in foreign.go.
package docs
