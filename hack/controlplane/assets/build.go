package assets

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
)

// buildModule is hack/controlplane/build: its go.mod pins what is built.
type buildModule struct {
	dir, repo        string
	kubernetes, etcd string // versions
}

func findBuildModule(ctx context.Context) (buildModule, error) {
	gomod, err := goOutput(ctx, "", "env", "GOMOD")
	if err != nil {
		return buildModule{}, err
	}
	repo := filepath.Dir(gomod)
	m := buildModule{dir: filepath.Join(repo, "hack", "controlplane", "build"), repo: repo}
	out, err := goOutput(ctx, m.dir, "list", "-m", "-f", "{{.Version}}", kubernetesModule, etcdModule)
	if err != nil {
		return buildModule{}, err
	}
	versions := strings.Fields(out)
	if len(versions) != 2 {
		return buildModule{}, fmt.Errorf("versions of %s and %s: got %q", kubernetesModule, etcdModule, out)
	}
	m.kubernetes, m.etcd = versions[0], versions[1]
	return m, nil
}

// run builds all of wanted into dir.
func (m buildModule) run(ctx context.Context, wanted []binary, dir string, progress io.Writer) error {
	for _, b := range wanted {
		if err := m.build(ctx, b.pkg, filepath.Join(dir, b.name), m.ldflags(b.pkg), progress); err != nil {
			return err
		}
	}
	return nil
}

// ldflags stamps the version into what is part of Kubernetes: without it an API server calls itself v0.0.0 and its feature
// gates start from the wrong baseline.
func (m buildModule) ldflags(pkg string) string {
	if !strings.HasPrefix(pkg, kubernetesModule+"/") {
		return "-s -w"
	}
	parts := strings.SplitN(strings.TrimPrefix(m.kubernetes, "v"), ".", 3)
	return fmt.Sprintf("-s -w -X k8s.io/component-base/version.gitVersion=%s -X k8s.io/component-base/version.gitMajor=%s -X k8s.io/component-base/version.gitMinor=%s",
		m.kubernetes, parts[0], parts[1])
}

// build compiles one binary and tells every few seconds how far it is: the compiler prints each package it finishes.
func (m buildModule) build(ctx context.Context, pkg, out, ldflags string, progress io.Writer) error {
	name := filepath.Base(out)
	deps, err := goOutput(ctx, m.dir, "list", "-deps", pkg)
	if err != nil {
		return err
	}
	total := strings.Count(deps, "\n") + 1
	fmt.Fprintf(progress, "controlplane: building %s (%d packages)\n", name, total)
	cmd := goCommand(ctx, m.dir, "build", "-v", "-trimpath", "-ldflags", ldflags, "-o", out, pkg)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	start, last, done := time.Now(), time.Now(), 0
	var other []string
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if line := lines.Text(); strings.ContainsAny(line, " \t") {
			other = append(other, line) // not a package path: a download or a compiler's message
		} else {
			done++
		}
		if time.Since(last) >= 5*time.Second {
			last = time.Now()
			fmt.Fprintf(progress, "controlplane: %s %3d%% (%d of %d packages, %s)\n", name, 100*done/total, done, total, time.Since(start).Round(time.Second))
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", name, err, strings.Join(other, "\n"))
	}
	fmt.Fprintf(progress, "controlplane: %s built in %s\n", name, time.Since(start).Round(time.Second))
	return nil
}
