package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/apply"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/cmd/identity"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/cmd/lifecycle"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/config"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/progress"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// The exit codes, documented by "emcoctl help exit-codes".
const (
	exitOK       = 0
	exitError    = 1
	exitUsage    = 2
	exitNotFound = 3
	exitConflict = 4
	exitAuth     = 5
	exitTimeout  = 6
	exitFailed   = 7
	exitPlan     = 8 // plan and diff: 1 of other commands
)

// exitCodes is a topic of the help, not a command.
func exitCodes() *cobra.Command {
	return &cobra.Command{
		Use: "exit-codes", Short: "What the exit codes mean",
		Long: `Exit codes of emcoctl:

  0  success
  1  an error: the server refused or was not reached, a file cannot be read or parsed;
     also if several documents failed for different reasons
  2  usage: unknown command or flag, missing or contradictory arguments
  3  not found
  4  conflict: it exists already, or its state or a dependent object does not allow it
  5  unauthorised or forbidden; also the answer no of auth can-i
  6  timeout (wait, --wait-for-status)
  7  the deployment failed (wait, --wait-for-status, --wait), or would fail (plan, diff)

For plan and diff, 1 means that something would change, and 8 is the 1 of other commands.
The commands of actions (instantiate, update GROUP, rollback, ...) succeed when the
server has accepted the action; --wait waits for its result. With --dry-run they succeed
with any plan.

With EMCOCTL_LEGACY_EXIT=1 apply, delete, update -f, and get of documents exit as upstream's
client does: 0 for any answer of the server and if it is not reached; 1 for files that
cannot be parsed, a missing section of the configuration, and usage errors. All other
commands keep their codes; get clusters, get deployments and update GROUP do, too.`,
	}
}

// printError prints an error, unless it is printed already. Failures of documents are; it prints
// only their number.
func printError(sys session.System, called *cobra.Command, err error) {
	if err == nil || errors.Is(err, lifecycle.ErrChanges) || errors.Is(err, identity.ErrNo) {
		return
	}
	if f, ok := errors.AsType[*apply.Failures](err); ok {
		if len(f.Results) > 1 || f.Left > 0 {
			fmt.Fprintln(sys.Err, "emcoctl:", f)
		}
		return
	}
	fmt.Fprintln(sys.Err, "error:", printable.Text(err.Error()))
	if next := cmp.Or(output.Next(err), output.NextMissing(err)); next != "" {
		fmt.Fprintln(sys.Err, "  next: ", next)
	}
	if _, ok := errors.AsType[session.UsageError](err); ok {
		if errors.Is(err, session.ErrNoSubject) {
			fmt.Fprintf(sys.Err, "  for example: %s\n", firstExample(called))
		}
		fmt.Fprintf(sys.Err, "run %q for usage\n", called.CommandPath()+" --help")
	}
}

// exitCode returns the exit code of the process. With EMCOCTL_LEGACY_EXIT=1, the commands that upstream's client also
// has ignore the server's answers, as it does.
func exitCode(s *session.Session, called *cobra.Command, err error) int {
	code := codeOf(err)
	legacy := s.Sys.Getenv("EMCOCTL_LEGACY_EXIT") == "1" && isUpstreams(called) && !s.KeepsExitCodes
	if code == exitOK || !legacy {
		return code
	}
	_, documents := errors.AsType[*apply.Failures](err)
	if _, fatal := errors.AsType[*config.MissingSection](err); documents && !fatal {
		return exitOK
	}
	return exitError
}

// isUpstreams reports whether upstream's client also has a command. The root is what was called if the command is
// unknown.
func isUpstreams(called *cobra.Command) bool {
	switch {
	case !called.HasParent():
		return true
	case called.Parent().HasParent():
		return false
	}
	return slices.Contains([]string{"apply", "update", "get", "delete"}, called.Name())
}

// codeOf maps an error to its exit code. Documents that failed for different reasons share
// code 1.
func codeOf(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, lifecycle.ErrChanges):
		return exitError
	case errors.Is(err, lifecycle.ErrBroken):
		return exitFailed
	case errors.Is(err, identity.ErrNo):
		return exitAuth
	}
	if p, ok := errors.AsType[lifecycle.RefusedPlan](err); ok {
		code := codeOf(p.Unwrap())
		if code == exitError {
			code = exitPlan
		}
		return code
	}
	if f, ok := errors.AsType[*apply.Failures](err); ok {
		code := codeOf(f.Results[0].Err)
		for _, r := range f.Results[1:] {
			if codeOf(r.Err) != code {
				return exitError
			}
		}
		return code
	}
	if _, ok := errors.AsType[session.UsageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*progress.TimeoutError](err); ok || errors.Is(err, context.DeadlineExceeded) {
		return exitTimeout
	}
	if _, ok := errors.AsType[*progress.FailedError](err); ok {
		return exitFailed
	}
	switch errs.KindOf(err) {
	case errs.NotFound:
		return exitNotFound
	case errs.Conflict, errs.Exists:
		return exitConflict
	case errs.Unauthorized, errs.Forbidden:
		return exitAuth
	}
	return exitError
}
