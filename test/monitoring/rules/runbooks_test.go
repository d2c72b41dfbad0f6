package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const pages = "https://github.com/egress-proxies/egress-proxies-operator/blob/main/docs/runbooks/"

func TestEveryAlertSaysWhatHowBadAndWhereToRead(t *testing.T) {
	t.Parallel()
	for _, a := range alerts(t) {
		if s := a.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q", a.Alert, s)
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s: no summary, or no description", a.Alert)
		}
		if got, want := a.Annotations["runbook_url"], pages+a.Alert+".md"; got != want {
			t.Errorf("%s: runbook_url %q, want %q", a.Alert, got, want)
		}
		if _, err := os.Stat(filepath.Join(runbooks, a.Alert+".md")); err != nil {
			t.Errorf("%s: %v", a.Alert, err)
		}
	}
}

func TestEveryRunbookIsOfAnAlertAndComplete(t *testing.T) {
	t.Parallel()
	all := alerts(t)
	for _, path := range glob(t, runbooks, "*.md") {
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		i := slices.IndexFunc(all, func(a rule) bool { return a.Alert == name })
		if i < 0 {
			t.Errorf("%s is of no alert", path)
			continue
		}
		text := string(read(t, path))
		if !strings.HasPrefix(text, "# "+name+"\n") {
			t.Errorf("%s: its title is not the alert's name", name)
		}
		at := 0
		for _, section := range []string{"\n## Meaning\n", "\n## Impact\n", "\n## Diagnosis\n", "\n## Mitigation\n"} {
			next := strings.Index(text[at:], section)
			if next < 0 {
				t.Errorf("%s: no section %q, or not in its place", name, strings.TrimSpace(section))
				continue
			}
			at += next
		}
		diagnosis, _, _ := strings.Cut(text[max(0, strings.Index(text, "## Diagnosis")):], "## Mitigation")
		if !strings.Contains(diagnosis, "\n```") {
			t.Errorf("%s: no command in the diagnosis", name)
		}
		if !strings.Contains(text, "`"+all[i].Labels["severity"]+"`") {
			t.Errorf("%s: the page does not say that it is %s", name, all[i].Labels["severity"])
		}
	}
}

// TestLinksLeadSomewhere: to files that are there, and to headings of them.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, path := range append(glob(t, runbooks, "*.md"), root+"/docs/operations.md") {
		for _, m := range link.FindAllStringSubmatch(string(read(t, path)), -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") {
				continue
			}
			target := path
			if to != "" {
				target = filepath.Join(filepath.Dir(path), to)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s: %v", path, m[1], err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(string(read(t, target))), anchor) {
				t.Errorf("%s: %s has no heading %q", path, target, anchor)
			}
		}
	}
}

// anchors are the names that GitHub gives to headings.
func anchors(text string) (names []string) {
	other := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(text) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			name := other.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			names = append(names, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return names
}
