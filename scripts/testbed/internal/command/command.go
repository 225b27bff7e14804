// Package command is the command line of testbed.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/emco-orchestrator/emco/scripts/testbed/build"
)

const usage = `Testbed runs real Kubernetes clusters and Flux on this machine for tests.

  testbed up -clusters c1,c2 -flux c2 -dir DIR [-nodes N]
        run clusters, Flux in some of them, until SIGINT or SIGTERM; write
        DIR/bed.json when all are ready
  testbed build [PART...]
        build parts (all of them without arguments) that the cache lacks
  testbed where PART
        print the folder of a part; exit with 3 when it is not built
  testbed help
        print this

Parts:
`

// Exit codes.
const (
	codeFailed   = 1
	codeUsage    = 2
	codeNotBuilt = 3
)

// Output receives results (Out) and progress lines (Progress).
type Output struct{ Out, Progress io.Writer }

var (
	errUsage    = errors.New("wrong usage: see testbed help")
	errNotBuilt = errors.New("not built: run testbed build")
)

// ExitCode returns the exit code of an error of Run: 2 for wrong usage, 3 for a missing part, otherwise
// 1.
func ExitCode(err error) int {
	switch {
	case errors.Is(err, errUsage):
		return codeUsage
	case errors.Is(err, errNotBuilt):
		return codeNotBuilt
	default:
		return codeFailed
	}
}

// Run runs one command line, without the program's name.
func Run(ctx context.Context, out Output, args []string) error {
	if len(args) == 0 {
		args = []string{"help"}
	}
	switch name, rest := args[0], args[1:]; name {
	case "up":
		return up(ctx, out, rest)
	case "build":
		return buildParts(ctx, out, rest)
	case "where":
		return where(ctx, out, rest)
	case "help", "-h", "-help", "--help":
		return help(out)
	default:
		return fmt.Errorf("unknown command %q: %w", name, errUsage)
	}
}

func help(out Output) error {
	fmt.Fprint(out.Out, usage)
	for _, name := range build.Names() {
		fmt.Fprintf(out.Out, "  %-6s%s\n", name, build.About(name))
	}
	return nil
}

func buildParts(ctx context.Context, out Output, names []string) error {
	b, err := build.New(out.Progress)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = build.Names()
	}
	for _, name := range names {
		dir, err := b.Build(ctx, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(out.Out, "%s %s\n", name, dir)
	}
	return nil
}

func where(ctx context.Context, out Output, names []string) error {
	if len(names) != 1 {
		return fmt.Errorf("where takes one part: %w", errUsage)
	}
	b, err := build.New(out.Progress)
	if err != nil {
		return err
	}
	dir, built, err := b.Where(ctx, names[0])
	if err != nil {
		return err
	}
	fmt.Fprintln(out.Out, dir)
	if !built {
		return fmt.Errorf("%s: %w", names[0], errNotBuilt)
	}
	return nil
}

// parse maps the errors of package flag to wrong usage.
func parse(flags *flag.FlagSet, args []string) error {
	flags.SetOutput(io.Discard)
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%s: %w: %w", flags.Name(), err, errUsage)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s: unexpected argument %q: %w", flags.Name(), flags.Arg(0), errUsage)
	}
	return nil
}
