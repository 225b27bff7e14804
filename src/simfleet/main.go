// Command simfleet simulates many clusters in one process. They pull their desired state from
// Git and report through Git or by HTTPS. Use it for tests, and to measure the load of a fleet.
//
//	simfleet seed   registers the clusters with the control plane
//	simfleet run    runs them
//	simfleet demo   shows EMCO with three of them
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

	"github.com/emco-orchestrator/emco/src/api/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Exit codes.
const (
	codeOK     = 0
	codeFailed = 1
	codeUsage  = 2
	codeBehind = 3 // run ended before all clusters that are online had applied what is in Git
)

const usage = `usage: simfleet seed|run|demo|version [flags]

  seed   registers clusters with the control plane: provider, sync object, clusters with
         labels, and a logical cloud with all of them
  run    runs the clusters: they fetch, apply, and report
  demo   shows in a minute what EMCO does: starts emco, a Git server and three clusters on this
         machine, deploys, changes, breaks, repairs and rolls back an app, and ends. With -keep
         it stays, for you to try commands
  version, -version
         prints the version, the commit and the Go release

simfleet seed -h, simfleet run -h and simfleet demo -h list the flags. Exit codes: 0 success, 1 failure, 2 wrong usage,
3 run ended with clusters behind.
`

// errUsage is wrapped by errors in flags and arguments.
var errUsage = errors.New("wrong usage")

func command(ctx context.Context, args []string, out, errOut io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(errOut, usage)
		return codeUsage
	}
	if version.Requested(args) {
		if version.Print(out, "simfleet") != nil {
			return codeFailed
		}
		return codeOK
	}
	code, err := codeOK, error(nil)
	switch args[0] {
	case "seed":
		err = seedFleet(ctx, args[1:], errOut)
	case "run":
		code, err = runFleet(ctx, args[1:], out, errOut)
	case "demo":
		err = showDemo(ctx, args[1:], out, errOut)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(errOut, usage)
	default:
		err = fmt.Errorf("%w: %q is none of seed, run and demo", errUsage, args[0])
	}
	switch {
	case err == nil:
		return code
	case errors.Is(err, flag.ErrHelp):
		return codeOK
	case errors.Is(err, errUsage):
		fmt.Fprintln(errOut, "simfleet:", err)
		return codeUsage
	}
	fmt.Fprintln(errOut, "simfleet:", err)
	return codeFailed
}
