package manifests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// needNodes are the commands of the page that take more than an API server.
var needNodes = []string{" rollout status ", "kubectl wait ", " port-forward ", "TOKEN=", "curl "}

// page is docs/install.md.
func page(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	must(t, err)
	return string(data)
}

// commands are those of the part of the page under a heading, with their here documents.
func commands(t *testing.T, heading string) (out []string) {
	t.Helper()
	_, part, found := strings.Cut(page(t), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("the page has no part %q", heading)
	}
	part, _, _ = strings.Cut(part, "\n## ")
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(part, -1) {
		out = append(out, strings.Split("\n"+block[1], "\n$ ")[1:]...)
	}
	if len(out) == 0 {
		t.Fatalf("the part %q has no commands", heading)
	}
	return out
}

// reader follows the page in a copy of what its commands need of this repository, with a file for each that he has by himself.
type reader struct {
	t            *testing.T
	dir, bin, at string
}

func newReader(t *testing.T, kubeconfig string) *reader {
	t.Helper()
	r := &reader{t: t, dir: t.TempDir(), bin: t.TempDir(), at: kubeconfig}
	for _, part := range []string{"config", "charts"} {
		must(t, os.CopyFS(filepath.Join(r.dir, part), os.DirFS(filepath.Join(root, part))))
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	must(t, err)
	helm, err := helmProgram()
	must(t, err)
	must(t, os.Symlink(helm, filepath.Join(r.bin, "helm")))
	cert, key := pair(t)
	for file, text := range map[string]string{
		"Makefile": string(makefile), "id_ed25519": aKey, "known_hosts": aHost, "credentials.json": "{}", "tokens.yaml": "tokens: []\n", "tls.crt": cert, "tls.key": key,
	} {
		must(t, os.WriteFile(filepath.Join(r.dir, file), []byte(text), 0o600))
	}
	return r
}

// follow runs commands, each of which has to succeed.
func (r *reader) follow(all []string) {
	r.t.Helper()
	for _, c := range all {
		if slices.ContainsFunc(needNodes, func(n string) bool { return strings.Contains(c, n) }) {
			continue
		}
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, "bash", "-euc", c)
		cmd.Dir = r.dir
		cmd.Env = append(os.Environ(), "KUBECONFIG="+r.at, "MAKEFLAGS=", "NAMESPACE=", "KEY=", "KNOWN_HOSTS=",
			"PATH="+r.bin+":"+os.Getenv("PATH"), "HELM_CACHE_HOME="+r.bin, "HELM_CONFIG_HOME="+r.bin, "HELM_DATA_HOME="+r.bin)
		said, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			r.t.Fatalf("$ %s\n%s%v", c, said, err)
		}
	}
}
