// Command manpages writes the manual pages of emcoctl, one for each command, into a folder. The
// release runs it; emcoctl itself does not link it.
//
//	manpages DIR VERSION DATE
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/cmd"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manpages:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("give folder, version and date, such as: man v1.2.3 2026-11-22")
	}
	date, err := time.Parse(time.DateOnly, args[2])
	if err != nil {
		return err
	}
	return write(args[0], args[1], date)
}

func write(dir, version string, date time.Time) error {
	root := cmd.Commands()
	root.DisableAutoGenTag = true
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Date: &date, Source: "emcoctl " + version, Manual: "EMCO"}, dir)
}
