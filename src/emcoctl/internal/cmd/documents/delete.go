package documents

import (
	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/apply"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// newDeleteCommand returns the command that removes and terminates.
func newDeleteCommand(s *session.Session) *cobra.Command {
	var f waitFlags
	var missing bool
	c := &cobra.Command{
		Use: "delete (-f FILE... | ANCHOR | KIND NAME)", Short: "Delete documents, terminate deployments",
		Long: `Delete removes each document, the last one first. For an anchor that ends in instantiate
it terminates the deployment; it skips other actions. It refuses a document without a
name, which would delete a whole collection. cluster PROVIDER/CLUSTER and deployment
PROJECT/COMPOSITEAPP/VERSION/GROUP name one document, as in emcoctl get.`,
		Example:           "  emcoctl delete -f deploy.yaml --wait-for-status\n  emcoctl delete cluster-providers/edge\n  emcoctl delete cluster edge/store-7",
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: complete.New(s).Document,
		RunE: s.Run(func(c *cobra.Command, args []string) error {
			args, err := byName("delete", args)
			if err != nil {
				return err
			}
			return runDocuments(c.Context(), s, anchor.Delete, args, func(o *apply.Options) {
				o.IgnoreMissing = missing
				o.Accepted = waiter(s, f)
			})
		}),
	}
	f.flags(c)
	c.Flags().BoolVar(&missing, "ignore-not-found", false, "a missing document is no error")
	return c
}
