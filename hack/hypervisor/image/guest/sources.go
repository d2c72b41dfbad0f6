package guest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// keyring is that of Debian's archive, where it is no part of what apt trusts already.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// Sources returns the lines of a sources.list with the packages of guests: from the mirror where one is given, else from
// wherever this machine's apt gets its own.
func Sources(ctx context.Context, mirror string) (string, error) {
	option := ""
	if _, err := os.Stat(keyring); err == nil {
		option = "[signed-by=" + keyring + "] "
	}
	if mirror != "" {
		return fmt.Sprintf("deb %s%s %s main\n", option, mirror, suite), nil
	}
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages").Output()
	if err != nil {
		return "", fmt.Errorf("asking apt for its repositories: %w", err)
	}
	return sourcesOf(string(out), option)
}

// sourcesOf picks the repositories of guests' packages out of all: lines of origin, address, release and component.
func sourcesOf(targets, option string) (string, error) {
	var lines strings.Builder
	seen := map[string]bool{}
	complete := false
	for line := range strings.Lines(targets) {
		f := strings.Fields(line)
		if len(f) != 4 || f[0] != "Debian" || f[3] != "main" {
			continue
		}
		release := f[2]
		if release != suite && !strings.HasPrefix(release, suite+"-") {
			continue
		}
		if source := fmt.Sprintf("deb %s%s %s main\n", option, f[1], release); !seen[source] {
			seen[source] = true
			lines.WriteString(source)
		}
		complete = complete || release == suite
	}
	if !complete {
		return "", fmt.Errorf("this machine's apt has no repository of Debian %s (with an up-to-date index): name one with -mirror", suite)
	}
	return lines.String(), nil
}

// aptOptions are this machine's settings of how to reach repositories and what to check there, as options of mmdebstrap.
func aptOptions(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "apt-config", "dump").Output()
	if err != nil {
		return nil, fmt.Errorf("asking apt for its configuration: %w", err)
	}
	return aptOptionsOf(string(out)), nil
}

func aptOptionsOf(dump string) []string {
	var options []string
	for line := range strings.Lines(dump) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if value == `"";` {
			continue // the head of what follows
		}
		for _, prefix := range []string{"Acquire::Check-", "Acquire::Retries", "Acquire::http", "Acquire::https"} {
			if strings.HasPrefix(name, prefix) {
				options = append(options, "--aptopt="+name+" "+strings.TrimSuffix(value, ";"))
				break
			}
		}
	}
	return options
}
