// Command testcount reads `go test -json` and prints one line per package, the whole output of what failed, the reasons of
// skips, and the counts. With -total it prints the counts alone. It ends with 1 when something failed or nothing ran.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
)

type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

type id struct{ pkg, test string }

func main() {
	totalOnly := flag.Bool("total", false, "print the counts alone")
	flag.Parse()
	var passed, failed, skipped int
	output := map[id]*strings.Builder{}
	say := func(format string, args ...any) {
		if !*totalOnly {
			fmt.Printf(format, args...)
		}
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			say("%s\n", in.Text()) // not from the test runner: a build message, say
			continue
		}
		key := id{e.Package, e.Test}
		switch e.Action {
		case "output":
			if output[key] == nil {
				output[key] = &strings.Builder{}
			}
			output[key].WriteString(e.Output)
		case "build-output":
			say("%s", e.Output)
		case "build-fail":
			failed++
			say("FAIL   %s does not build\n", e.ImportPath)
		case "pass", "fail", "skip":
			text := ""
			if b := output[key]; b != nil {
				text = b.String()
			}
			delete(output, key)
			if e.Test == "" {
				if e.Action == "fail" {
					failed++ // also a package that fails outside any test
					say("%s", text)
				}
				if e.Action != "skip" {
					say("%-6s %s %.1fs\n", e.Action, e.Package, e.Elapsed)
				}
				continue
			}
			switch e.Action {
			case "pass":
				passed++
			case "skip":
				skipped++
				say("skip   %s %s\n%s", e.Package, e.Test, text)
			case "fail":
				failed++
				say("%s", text)
			}
		}
	}
	if err := in.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
		os.Exit(1)
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if failed > 0 || passed == 0 {
		os.Exit(1)
	}
}
