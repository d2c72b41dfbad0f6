package proxy

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write the generated table instead of comparing it")

const (
	guarantees           = "../../../docs/guarantees.md"
	tableBegin, tableEnd = "<!-- table -->\n", "<!-- /table -->"
)

// TestStateTableReference keeps the table in docs/guarantees.md what the code's is.
func TestStateTableReference(t *testing.T) {
	var table bytes.Buffer
	fmt.Fprint(&table, "| seen | living | being deleted |\n|---|---|---|\n")
	for _, r := range rows() {
		fmt.Fprintf(&table, "| %s | %s | %s |\n", r.seen, r.living, r.deleting)
	}
	page, err := os.ReadFile(guarantees)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := bytes.Cut(page, []byte(tableBegin))
	old, tail, ok2 := bytes.Cut(rest, []byte(tableEnd))
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", guarantees)
	}
	if *update {
		page = bytes.Join([][]byte{head, []byte(tableBegin), table.Bytes(), []byte(tableEnd), tail}, nil)
		if err := os.WriteFile(guarantees, page, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(old, table.Bytes()) {
		t.Fatalf("the state table in %s is out of date: run make generate", guarantees)
	}
}

func TestEverySightHasARow(t *testing.T) {
	seen := map[sight]bool{}
	for _, r := range rows() {
		if seen[r.seen] {
			t.Errorf("%s has two rows", r.seen)
		}
		seen[r.seen] = true
	}
	for _, s := range []sight{
		sightNoAttempt, sightNotFound, sightNothingYet, sightProvisioning, sightRunning, sightDrifted, sightStopped, sightDeleting,
		sightFailedLeft, sightFailedClean, sightUnknown, sightOlder, sightNewer, sightConflict, sightConflictEarly, sightError,
	} {
		if !seen[s] {
			t.Errorf("%s has no row", s)
		}
	}
}
