package documents

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/apply"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// newApplyCommand returns the command that creates and configures.
func newApplyCommand(s *session.Session) *cobra.Command {
	var f waitFlags
	var postOnly bool
	var dry string
	c := &cobra.Command{
		Use: "apply (-f FILE... | ANCHOR)", Short: "Create or configure documents, run actions",
		Long: `Apply sends each document in the order of the files. It creates new documents and
configures (PUT) those that differ; the others are unchanged. It runs actions, such as
…/instantiate; an action that is done already is unchanged. With an anchor, it sends an
empty body: apply …/approve.

Upstream's client only creates. With its flag -s, apply warns of each document that it
replaces; --post-only refuses them instead.

--dry-run=client checks the documents by the rules of the server, without one.
--dry-run=server also compares them with the server's, and prints what apply would do. See
emcoctl plan -f for what the actions would do.`,
		Example:           "  emcoctl apply -f edge.yaml -f apps/ -v values.yaml\n  emcoctl apply -f deploy.yaml --wait-for-status\n  emcoctl apply projects/p/composite-apps/a/v1/deployment-intent-groups/d/update",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: complete.New(s).Anchor,
		RunE: s.Run(func(c *cobra.Command, args []string) error {
			if !slices.Contains(dryRuns, dry) {
				return session.Usagef("--dry-run: %q is none of none, client, server", dry)
			}
			return runDocuments(c.Context(), s, anchor.Apply, args, func(o *apply.Options) {
				o.PostOnly = postOnly
				if dry != dryRuns[0] {
					o.DryRun = apply.DryRun(dry)
				}
				if s.Stop {
					o.Replacing = func(path string) {
						fmt.Fprintf(s.Sys.Err, "warning: %s exists with another content and is replaced; --post-only refuses that, as upstream's client does\n", path)
					}
				}
				o.Accepted = waiter(s, f)
			})
		}),
	}
	f.flags(c)
	c.Flags().StringVar(&dry, "dry-run", dryRuns[0], "change nothing: "+strings.Join(dryRuns, ", "))
	complete.Flag(c, "dry-run", complete.Fixed(dryRuns))
	c.Flags().BoolVar(&postOnly, "post-only", false, "only create, as upstream's client does: an existing document is an error")
	return c
}

// dryRuns are the values of --dry-run of apply.
var dryRuns = []string{"none", string(apply.ClientDryRun), string(apply.ServerDryRun)}
