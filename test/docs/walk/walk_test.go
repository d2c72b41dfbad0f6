package walk

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/hack/controlplane/assets"
)

// python is Debian's, which is the one that Debian's packages are for.
const python = "/usr/bin/python3"

// pages are those that are followed, with the programs and files that it takes besides Go, make and git, and with what is run at
// the end of the page while all is up: the examples of other pages.
var pages = []struct {
	path  string
	needs []string
	also  []string
}{
	{
		"docs/quickstart.md",
		[]string{"curl", "jq", python, "/usr/lib/python3/dist-packages/requests/__init__.py"},
		[]string{python + " docs/examples/run_api_md.py bash python go"},
	},
	{
		"docs/tutorial-scrapy.md",
		[]string{"curl", "jq", "scrapy", python},
		[]string{"cd ../..", python + " docs/examples/scrapy/try_alone.py", python + " docs/examples/scrapy/try_demo.py"},
	},
}

// TestWalk follows the pages, one after the other: each of them ends with what it has started.
func TestWalk(t *testing.T) {
	if os.Getenv("WALK") != "1" {
		t.Skip("WALK is not 1: make test-docs follows the pages")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	kubectl, err := assets.EnsureKubectl(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	env := environment(kubectl)
	for _, page := range pages {
		t.Run(filepath.Base(page.path), func(t *testing.T) {
			for _, need := range page.needs {
				if err := there(need); err != nil {
					if os.Getenv("REQUIRE_WALK_PROGRAMS") == "1" {
						t.Fatal("REQUIRE_WALK_PROGRAMS is 1, and something is missing: ", err)
					}
					t.Skip("hack/install docs installs what is missing: ", err)
				}
			}
			steps, err := stepsOf(filepath.Join(root, page.path))
			if err != nil {
				t.Fatal(err)
			}
			if len(steps) < 5 {
				t.Fatalf("%s has only %d steps to follow", page.path, len(steps))
			}
			for _, command := range page.also {
				steps = append(steps, step{command: command})
			}
			follow(t, root, env, page.path, steps)
			fmt.Printf("proved: %d commands of %s, followed word for word\n", len(steps)-len(page.also), page.path)
		})
	}
}

func follow(t *testing.T, root string, env []string, page string, steps []step) {
	t.Helper()
	var sh *shell
	for _, st := range steps {
		if st.stays != "" {
			if err := terminal(t, root, env, st); err != nil {
				t.Fatalf("%s:%d: %s: %v", page, st.line, st.command, err)
			}
			continue
		}
		if sh == nil {
			sh = newShell(t, root, env)
		}
		got, err := sh.run(t.Context(), st.command)
		if err != nil {
			t.Fatalf("%s:%d: %s: %v\n%s", page, st.line, st.command, err, strings.Join(got, "\n"))
		}
		if st.want == nil {
			continue
		}
		if why := differs(st.want, got); why != "" {
			t.Fatalf("%s:%d: %s: %s", page, st.line, st.command, why)
		}
	}
}

// environment is the reader's: kubectl is found, and nothing leads to another cluster, or through a proxy to this machine.
func environment(kubectl string) []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		switch strings.ToUpper(name) {
		case "KUBECONFIG", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "PATH", "DISCOVERY_TOKEN", "EGRESS_API", "MAKEFLAGS", "MAKELEVEL", "DEMO":
		default:
			env = append(env, v)
		}
	}
	return append(env, "PATH="+kubectl+string(os.PathListSeparator)+os.Getenv("PATH"), "NO_PROXY=localhost,127.0.0.0/8", "no_proxy=localhost,127.0.0.1")
}

// there finds programs in the PATH, and files at their place.
func there(need string) error {
	if filepath.IsAbs(need) {
		_, err := os.Stat(need)
		return err
	}
	_, err := exec.LookPath(need)
	return err
}
