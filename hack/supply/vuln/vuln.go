// Package vuln looks for known vulnerabilities in what programs call.
package vuln

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/vuln/scan"
)

// Database is Go's own.
const Database = "https://vuln.go.dev"

// patience is how long the database may take to answer the first question.
const patience = 20 * time.Second

var (
	// ErrNotRun says that nothing was looked for, since the database cannot be reached.
	ErrNotRun = errors.New("not run")
	// ErrFound says that the code calls something with a known vulnerability.
	ErrFound = errors.New("vulnerabilities found")
)

// Check looks through what the packages of the module in folder root call, and writes to out what it finds. database is a URL
// with http, https or file. It blocks for as long as it takes to load all sources, about a minute.
func Check(ctx context.Context, database, root string, out io.Writer, packages ...string) error {
	if err := reachable(ctx, database); err != nil {
		return fmt.Errorf("%w: no vulnerability database at %s: %w", ErrNotRun, database, err)
	}
	cmd := scan.Command(ctx, append([]string{"-db", database, "-C", root}, packages...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return err
	}
	err := cmd.Wait()
	var code interface{ ExitCode() int }
	if errors.As(err, &code) && code.ExitCode() == 3 {
		return ErrFound
	}
	return err
}

// reachable asks for what every database has. A failure later on is a failure: half a look is none.
func reachable(ctx context.Context, database string) error {
	u, err := url.Parse(database)
	if err != nil {
		return err
	}
	at := u.JoinPath("index", "modules.json")
	switch u.Scheme {
	case "file":
		_, err := os.Stat(filepath.FromSlash(at.Path))
		return err
	case "http", "https":
	default:
		return fmt.Errorf("scheme %q: wanted is http, https or file", u.Scheme)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		var wrapped *url.Error // it repeats the address
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return err
	}
	defer func() { _ = a.Body.Close() }()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", a.Status)
	}
	return nil
}
