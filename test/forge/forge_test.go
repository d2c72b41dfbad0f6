package forge

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const root = "../.."

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	must(t, err)
	return string(data)
}

type step struct {
	Uses, Run string
	With      map[string]any
}

type job struct {
	Permissions    map[string]string
	TimeoutMinutes int `json:"timeout-minutes"`
	Strategy       struct{ Matrix map[string][]string }
	Steps          []step
}

type workflow struct {
	On          map[string]any
	Permissions map[string]string
	Jobs        map[string]job
}

// workflows are all of them, by file name.
func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*"))
	must(t, err)
	out := map[string]workflow{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		must(t, err)
		var w workflow
		must(t, yaml.Unmarshal(data, &w))
		out[filepath.Base(f)] = w
	}
	if len(out) == 0 {
		t.Fatal("no workflows")
	}
	return out
}

func TestWorkflowsHaveTheLeastRights(t *testing.T) {
	// All that a job may do beyond reading.
	more := map[string][]string{"release.yml publish": {"attestations", "contents", "id-token", "packages"}}
	pinned := regexp.MustCompile(`^[a-z0-9-]+/[a-z0-9-]+@v[0-9]+$`)
	for file, w := range workflows(t) {
		if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
			t.Errorf("%s: permissions %v, want contents: read alone", file, w.Permissions)
		}
		if _, ok := w.On["pull_request_target"]; ok {
			t.Errorf("%s runs code of strangers with rights", file)
		}
		for name, j := range w.Jobs {
			for right := range j.Permissions {
				if !slices.Contains(more[file+" "+name], right) {
					t.Errorf("%s, job %s: right %s", file, name, right)
				}
			}
			if j.TimeoutMinutes < 1 || j.TimeoutMinutes > 90 {
				t.Errorf("%s, job %s: timeout-minutes %d", file, name, j.TimeoutMinutes)
			}
			for _, s := range j.Steps {
				if s.Uses != "" && !pinned.MatchString(s.Uses) {
					t.Errorf("%s, job %s: %s is not pinned by its major version", file, name, s.Uses)
				}
				if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["persist-credentials"] != false {
					t.Errorf("%s, job %s: the token stays in the folder", file, name)
				}
				if strings.Contains(s.Run, "${{ github.") {
					t.Errorf("%s, job %s: %q takes in what others name: use an environment variable", file, name, s.Run)
				}
				if made := targets(s.Run); len(j.Permissions) > 0 && len(made) > 0 && !slices.Equal(made, []string{"push"}) {
					t.Errorf("%s, job %s: make %q with the right to publish", file, name, made)
				}
			}
		}
	}
}

var target = regexp.MustCompile(`\bmake((?: +[a-z0-9-]+\b)+)`)

// targets are what a line makes.
func targets(line string) (out []string) {
	for _, m := range target.FindAllStringSubmatch(line, -1) {
		out = append(out, strings.Fields(m[1])...)
	}
	return out
}

func TestWorkflowsRunWhatCIRuns(t *testing.T) {
	run := map[string]bool{}
	for file, w := range workflows(t) {
		for _, j := range w.Jobs {
			lines := []string{""}
			for _, s := range j.Steps {
				lines = append(lines, s.Run)
			}
			all := strings.Join(lines, "\n")
			for key, values := range j.Strategy.Matrix {
				for _, v := range values {
					all += "\n" + strings.ReplaceAll(strings.Join(lines, "\n"), "${{ matrix."+key+" }}", v)
				}
			}
			for _, x := range targets(all) {
				if run[x] = run[x] || file == "ci.yml"; !strings.Contains(read(t, "Makefile"), "\n"+x+":") {
					t.Errorf("%s: make %s, which is no target", file, x)
				}
			}
		}
	}
	ci := read(t, ".ci/run")
	var want []string
	for line := range strings.Lines(ci) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") && !strings.Contains(line, "CI_FUZZ") && !strings.Contains(line, "CI_FLEET") {
			want = append(want, targets(line)...)
		}
	}
	if len(want) < 8 {
		t.Fatalf("found but %q in .ci/run", want)
	}
	for _, x := range want {
		if !run[x] {
			t.Errorf(".ci/run makes %s, ci.yml does not", x)
		}
	}
}

func TestEveryModuleIsKeptUpToDate(t *testing.T) {
	var modules []string
	must(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "dist", "bin", "testdata", "node_modules"}, d.Name()) {
			return fs.SkipDir
		}
		if d.Name() == "go.mod" {
			rel, err := filepath.Rel(root, filepath.Dir(p))
			modules = append(modules, strings.TrimSuffix("/"+filepath.ToSlash(rel), "."))
			return err
		}
		return nil
	}))
	var config struct {
		Updates []struct {
			Ecosystem   string `json:"package-ecosystem"`
			Directory   string
			Directories []string
		}
	}
	must(t, yaml.Unmarshal([]byte(read(t, ".github/dependabot.yml")), &config))
	kept := map[string][]string{}
	for _, u := range config.Updates {
		kept[u.Ecosystem] = slices.Concat(kept[u.Ecosystem], u.Directories)
		if u.Directory != "" {
			kept[u.Ecosystem] = append(kept[u.Ecosystem], u.Directory)
		}
	}
	slices.Sort(modules)
	slices.Sort(kept["gomod"])
	if len(modules) < 2 || !slices.Equal(modules, kept["gomod"]) {
		t.Errorf("dependabot looks after %q; there is go.mod in %q", kept["gomod"], modules)
	}
	if !slices.Equal(kept["github-actions"], []string{"/"}) {
		t.Errorf("actions: %q", kept["github-actions"])
	}
}
