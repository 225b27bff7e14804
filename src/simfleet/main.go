// Command simfleet plays many clusters that pull their desired state from Git and report
// through Git or by HTTPS, in one process. It is for tests and for seeing how a fleet loads its servers.
//
//	simfleet seed   registers the clusters with the control plane
//	simfleet run    has them live
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Exit codes.
const (
	codeFine   = 0
	codeFailed = 1
	codeUsage  = 2
	codeBehind = 3 // run ended before all clusters that are online were where Git says
)

const usage = `usage: simfleet seed|run [flags]

  seed   registers clusters with the control plane: provider, repository, clusters with
         labels, and a logical cloud that holds them
  run    has the clusters live: they fetch, apply, and report

simfleet seed -h and simfleet run -h list the flags. Exit codes: 0 fine, 1 something failed,
2 called in the wrong way, 3 run ended with clusters behind.
`

// errUsage is wrapped by errors of those who called.
var errUsage = errors.New("wrong use")

func command(ctx context.Context, args []string, out, said io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(said, usage)
		return codeUsage
	}
	code, err := codeFine, error(nil)
	switch args[0] {
	case "seed":
		err = seedFleet(ctx, args[1:], said)
	case "run":
		code, err = runFleet(ctx, args[1:], out, said)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(said, usage)
	default:
		err = fmt.Errorf("%w: %q is neither seed nor run", errUsage, args[0])
	}
	switch {
	case err == nil:
		return code
	case errors.Is(err, flag.ErrHelp):
		return codeFine
	case errors.Is(err, errUsage):
		fmt.Fprintln(said, "simfleet:", err)
		return codeUsage
	}
	fmt.Fprintln(said, "simfleet:", err)
	return codeFailed
}
