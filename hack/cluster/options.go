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

// options are the flags.
type options struct {
	pause   string
	images  []string
	logs    string
	check   bool
	command []string
}

// parse reads the arguments; files become absolute paths and have to be there.
func parse(args []string, usage io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.Usage = func() {
		fmt.Fprintln(usage, "usage: cluster [flags] -- COMMAND ARGS…")
		flags.PrintDefaults()
	}
	flags.StringVar(&o.pause, "pause", "", "`archive` (docker save) of the image that holds a Pod's namespaces; made by hack/image when empty")
	flags.Func("image", "`archive` (docker save) of images for Pods; may be repeated", func(file string) error {
		o.images = append(o.images, file)
		return nil
	})
	flags.StringVar(&o.logs, "logs", "", "`folder` where the logs stay; when empty they go, and the end of each is shown after a failure")
	flags.BoolVar(&o.check, "check", false, "only say what this host lacks")
	if err := flags.Parse(args); err != nil || o.check {
		return o, err
	}
	if o.command = flags.Args(); len(o.command) == 0 {
		return o, errors.New("no command to run: cluster [flags] -- COMMAND ARGS…")
	}
	if _, err := exec.LookPath(o.command[0]); err != nil {
		return o, err
	}
	for _, file := range []*string{&o.pause, &o.logs} {
		if err := absolute(file); err != nil {
			return o, err
		}
	}
	for i := range o.images {
		if err := absolute(&o.images[i]); err != nil {
			return o, err
		}
	}
	for _, file := range append([]string{o.pause}, o.images...) {
		if file == "" {
			continue
		}
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
			return o, fmt.Errorf("image %s: not a file", file)
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
