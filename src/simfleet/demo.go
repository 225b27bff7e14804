package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/emco-orchestrator/emco/src/simfleet/internal/demo"
)

// showDemo shows what EMCO does, with programs that are on this machine.
func showDemo(ctx context.Context, args []string, out, errOut io.Writer) error {
	o := demo.Options{Out: out}
	f := flag.NewFlagSet("demo", flag.ContinueOnError)
	f.BoolVar(&o.Keep, "keep", false, "leave everything running until Ctrl-C, and print commands to try")
	f.StringVar(&o.Data, "data", "", "folder for everything, which must be new or empty, and stays at the end; default: a temporary folder, which does not")
	f.StringVar(&o.Bin, "bin", "", "folder with emco and emcoctl; default: the folder of simfleet, else the PATH")
	if err := parse(f, args, errOut); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program simfleet: %w", err)
	}
	o.Self = self
	return demo.Run(ctx, o)
}
