package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// maxHosts is a limit of addresses and of sense: guests need memory.
const maxHosts = 4

// options are the flags.
type options struct {
	image   string
	logs    string
	hosts   int
	check   bool
	command []string
}

// parse reads the arguments; files become absolute paths and have to be there.
func parse(args []string, usage io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("hypervisor", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.Usage = func() {
		fmt.Fprintln(usage, "usage: hypervisor [flags] -- COMMAND ARGS…")
		flags.PrintDefaults()
	}
	flags.StringVar(&o.image, "image", "", "`file` of a guest's disk, named to the command with its checksum; hack/hypervisor/image makes one")
	flags.StringVar(&o.logs, "logs", "", "`folder` where the logs stay; when empty they go, and the end of each is shown after a failure")
	flags.IntVar(&o.hosts, "hosts", 1, "how many hosts there are")
	flags.BoolVar(&o.check, "check", false, "only say what this host lacks, also for making a guest's image")
	if err := flags.Parse(args); err != nil || o.check {
		return o, err
	}
	if o.hosts < 1 || o.hosts > maxHosts {
		return o, fmt.Errorf("-hosts %d: want 1 to %d", o.hosts, maxHosts)
	}
	if o.command = flags.Args(); len(o.command) == 0 {
		return o, errors.New("no command to run: hypervisor [flags] -- COMMAND ARGS…")
	}
	if _, err := exec.LookPath(o.command[0]); err != nil {
		return o, err
	}
	for _, file := range []*string{&o.image, &o.logs} {
		if err := absolute(file); err != nil {
			return o, err
		}
	}
	if o.image != "" {
		if info, err := os.Stat(o.image); err != nil || !info.Mode().IsRegular() {
			return o, fmt.Errorf("image %s: not a file", o.image)
		}
	}
	return o, nil
}

func absolute(file *string) (err error) {
	if *file != "" {
		*file, err = filepath.Abs(*file)
	}
	return err
}
