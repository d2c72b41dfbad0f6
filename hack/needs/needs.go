// Package needs says what a host lacks for a program of this folder.
package needs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Need is a program, or a file where it is an absolute path, that has to be there, and Debian's package with it.
type Need struct{ Program, Package string }

// Missing says in one line which of wanted are not there, which packages have them, and the script that installs these; ""
// when all are there.
func Missing(wanted []Need, installer string) string {
	return missing(wanted, installer, there)
}

// there finds programs as a shell does, and files at their place.
func there(program string) bool {
	if filepath.IsAbs(program) {
		info, err := os.Stat(program)
		return err == nil && info.Mode().IsRegular()
	}
	_, err := exec.LookPath(program)
	return err == nil
}

func missing(wanted []Need, installer string, there func(program string) bool) string {
	var programs, packages []string
	for _, n := range wanted {
		if there(n.Program) {
			continue
		}
		programs = append(programs, n.Program)
		if !slices.Contains(packages, n.Package) {
			packages = append(packages, n.Package)
		}
	}
	if len(programs) == 0 {
		return ""
	}
	return fmt.Sprintf("missing: %s; %s installs them (Debian: %s)", strings.Join(programs, ", "), installer, strings.Join(packages, ", "))
}

// Room says in one line what keeps this process from making a room of its own (hack/isolation), "" when nothing does.
func Room() string {
	if os.Geteuid() != 0 {
		return "this takes root: namespaces, mounts and, for clusters, cgroups are made"
	}
	// Inside, other folders are seen in their places.
	for _, hidden := range []string{"/run", "/var/run", "/var/lib", "/var/log", "/var/cache"} {
		if strings.HasPrefix(filepath.Clean(os.TempDir())+"/", hidden+"/") {
			return fmt.Sprintf("TMPDIR=%s cannot be below %s", os.TempDir(), hidden)
		}
	}
	return ""
}

// CompletePath lets programs for administrators be found, also by those that we start: not every shell of root looks there.
func CompletePath() {
	path := filepath.SplitList(os.Getenv("PATH"))
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if !slices.Contains(path, dir) {
			path = append(path, dir)
		}
	}
	_ = os.Setenv("PATH", strings.Join(path, string(filepath.ListSeparator)))
}
