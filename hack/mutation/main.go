// Command mutation breaks each numbered rule of docs/guarantees.md in turn, in a copy of the repository, and expects the
// named test to go red. A rule without a mutant, a mutant without a rule, a patch that no longer applies and a mutant that
// survives all fail it.
//
//	go run ./hack/mutation [-only R7] [-keep]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	only := flag.String("only", "", "break this `rule` alone")
	flag.Parse()
	if err := run(context.Background(), *only); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string) error {
	if err := complete(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutation-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := copyTree(ctx, dir); err != nil {
		return err
	}
	var bad []error
	killed := 0
	for _, m := range mutants() {
		if only != "" && m.rule != only {
			continue
		}
		start := time.Now()
		if err := m.try(ctx, dir); err != nil {
			bad = append(bad, fmt.Errorf("%s (%s): %w", m.rule, m.what, err))
			fmt.Printf("%-4s SURVIVED  %s: %v\n", m.rule, m.what, err)
			continue
		}
		killed++
		fmt.Printf("%-4s red       %-42s %s (%.0fs)\n", m.rule, m.test, m.what, time.Since(start).Seconds())
	}
	fmt.Printf("mutants: %d killed, %d survived\n", killed, len(bad))
	return errors.Join(bad...)
}

// complete holds the rules on the page against the mutants.
func complete() error {
	page, err := os.ReadFile("docs/guarantees.md")
	if err != nil {
		return err
	}
	rules := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^- \*\*(R\d+)\.\*\*`).FindAllStringSubmatch(string(page), -1) {
		rules[m[1]] = false
	}
	var errs []error
	for _, m := range mutants() {
		if _, ok := rules[m.rule]; !ok {
			errs = append(errs, fmt.Errorf("a mutant breaks %s, which docs/guarantees.md does not have", m.rule))
		}
		rules[m.rule] = true
	}
	for rule, broken := range rules {
		if !broken {
			errs = append(errs, fmt.Errorf("nothing breaks %s", rule))
		}
	}
	return errors.Join(errs...)
}

// copyTree copies what git tracks, as it is in the working tree.
func copyTree(ctx context.Context, dir string) error {
	script := `git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -T - -cf - 2>/dev/null | tar -xf - -C "$1"`
	out, err := exec.CommandContext(ctx, "bash", "-c", script, "bash", dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copying the tree: %w: %s", err, out)
	}
	return nil
}

// mutant is one broken rule.
type mutant struct {
	rule, what string
	// In file, the only occurrence of from becomes to.
	file, from, to string
	// test in pkg goes red; sub narrows it for speed.
	pkg, test, sub string
}

func (m mutant) try(ctx context.Context, dir string) error {
	path := filepath.Join(dir, m.file)
	original, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := strings.Count(string(original), m.from); n != 1 {
		return fmt.Errorf("the line that holds the rule is %d times in %s: the patch has to follow the code", n, m.file)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(original), m.from, m.to, 1)), 0o600); err != nil {
		return err
	}
	defer func() { _ = os.WriteFile(path, original, 0o600) }()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	vet := exec.CommandContext(ctx, "go", "build", m.pkg)
	vet.Dir = dir
	if out, err := vet.CombinedOutput(); err != nil {
		return fmt.Errorf("the mutant does not build: %s", out)
	}
	pattern := "^" + m.test + "$" + m.sub
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-vet=off", "-timeout=4m", "-run", pattern, m.pkg)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return fmt.Errorf("%s stayed green", m.test)
	case !strings.Contains(string(out), "--- FAIL: "+m.test) && !strings.Contains(string(out), "panic: test timed out"):
		return fmt.Errorf("%s did not run: %.2000s", m.test, out)
	}
	return nil
}
