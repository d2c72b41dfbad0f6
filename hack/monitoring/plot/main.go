// Command plot draws the panels of the dashboard with the data of a run into one picture. hack/monitoring calls it:
//
//	go -C hack/monitoring/plot run . -from graphs.json -to dashboard.png
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

// limit is how large the picture may be: it is kept in the repository.
const limit = 300 << 10

func main() {
	from := flag.String("from", "", "`file` with the data")
	to := flag.String("to", "", "PNG `file` to write")
	flag.Parse()
	if err := run(*from, *to); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var b Board
	if err := json.Unmarshal(data, &b); err != nil {
		return err
	}
	picture, err := b.Picture()
	if err != nil {
		return err
	}
	if len(picture) > limit {
		return fmt.Errorf("the picture has %d KiB, more than %d", len(picture)>>10, limit>>10)
	}
	if err := os.WriteFile(to, picture, 0o644); err != nil {
		return err
	}
	fmt.Printf("plot: %s, %d KiB\n", to, len(picture)>>10)
	return nil
}
