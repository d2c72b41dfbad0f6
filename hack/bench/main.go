// Command bench runs the repository's benchmarks and prints `bench <name> <value>` for each: the median of its runs. It
// ends with 1 when a benchmark failed or printed nothing. What it runs are the programs in the folders beside this file,
// which measure those of the packages, too, with both sizes of a fleet taking turns. Packages given as arguments are measured
// alone, one benchmark after the other.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const runs = "5"

// line is a benchmark's own: name, iterations, then pairs of value and unit.
var line = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.+)$`)

func main() {
	if packages := os.Args[1:]; len(packages) > 0 {
		measure(packages...)
		return
	}
	for _, whole := range []string{"leases", "probes"} {
		cmd := exec.Command("go", "run", "./hack/bench/"+whole)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", whole, err)
			os.Exit(1)
		}
	}
}

// measure runs the benchmarks that args of go test name.
func measure(args ...string) {
	args = append([]string{"test", "-run", "^$", "-bench", ".", "-benchmem", "-benchtime", "200ms", "-count", runs}, args...)
	cmd := exec.Command("go", args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "%sbench: %v\n", out.String(), err)
		os.Exit(1)
	}
	values := map[string][]float64{}
	var order []string
	for s := bufio.NewScanner(&out); s.Scan(); {
		m := line.FindStringSubmatch(s.Text())
		if m == nil {
			continue
		}
		fields := strings.Fields(m[2])
		for i := 0; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				continue
			}
			name := m[1] + "_" + strings.NewReplacer("/", "_per_", "-", "_").Replace(fields[i+1])
			if values[name] == nil {
				order = append(order, name)
			}
			values[name] = append(values[name], v)
		}
	}
	if len(order) == 0 {
		fmt.Fprintln(os.Stderr, "bench: no benchmark printed anything")
		os.Exit(1)
	}
	for _, name := range order {
		v := values[name]
		slices.Sort(v)
		fmt.Printf("bench %s %s\n", name, strconv.FormatFloat(v[len(v)/2], 'g', 5, 64))
	}
}
