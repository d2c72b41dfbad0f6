// Command supply says what is in the shipped programs:
//
//	supply licences [-root DIR] PROGRAM...          prints the licence of each module; ends with 1 when one is not taken
//	supply describe [-root DIR] -o DIR PROGRAM...   writes THIRD-PARTY-NOTICES and sbom.cdx.json
//	supply verify [-root DIR] -sbom FILE PROGRAM... checks that the bill of materials is whole and about these programs
//	supply vulncheck [-root DIR] [-db URL] [-required] PACKAGE...
//
// PROGRAM is a file, PACKAGE an import path or pattern in the module of DIR. vulncheck ends with 0 and says "not run" when its
// database cannot be reached, unless it is required.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

const usage = "which one: licences, describe, verify or vulncheck"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "supply:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	f := flag.NewFlagSet("supply "+args[0], flag.ContinueOnError)
	c := command{ctx: ctx, stdout: stdout}
	f.StringVar(&c.root, "root", "../..", "folder of the module that the programs are of")
	var do func() error
	switch args[0] {
	case "licences":
		do = c.licences
	case "describe":
		f.StringVar(&c.out, "o", "", "folder to write into")
		f.StringVar(&c.subject.Version, "version", "", "version of the programs")
		f.StringVar(&c.subject.Date, "date", "", "date of the commit, RFC 3339")
		f.Func("file", "`path=file`: what else ships with them, under that path; may be given more than once", c.addFile)
		do = c.describe
	case "verify":
		f.StringVar(&c.bill, "sbom", "", "bill of materials, CycloneDX in JSON")
		do = c.verify
	case "vulncheck":
		f.StringVar(&c.database, "db", "", "URL of the vulnerability database; GOVULNDB or Go's when empty")
		f.BoolVar(&c.required, "required", false, "fail when the database cannot be reached")
		do = c.vulncheck
	default:
		return fmt.Errorf("no command %q; %s", args[0], usage)
	}
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	c.args = f.Args()
	return do()
}
