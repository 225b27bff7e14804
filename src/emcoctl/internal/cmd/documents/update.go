package documents

import (
	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/apply"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/cmd/lifecycle"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// newUpdateCommand returns the command that replaces documents. With a deployment it is the action update.
func newUpdateCommand(s *session.Session) *cobra.Command {
	d := lifecycle.CommandOf("update")
	c := &cobra.Command{
		Use: "update (-f FILE... | GROUP)", Short: "Replace documents, or roll out the documents of a deployment",
		Long: `Update sends each document with PUT, in the order of the files. Actions are skipped.

With GROUP (PROJECT/COMPOSITEAPP/VERSION/GROUP, or its path) it is an action: the
documents on the server become the next revision of the deployment.`,
		Example:           "  emcoctl update -f app-intent.yaml\n  emcoctl update shop/till/v1/autumn --dry-run\n  emcoctl update shop/till/v1/autumn --reason 'more memory' --wait",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: complete.New(s).Group,
		RunE: s.Run(func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return runDocuments(c.Context(), s, anchor.Update, nil, func(*apply.Options) {})
			}
			if _, err := session.Deployment(args[0]); err != nil || len(s.Files) > 0 {
				return session.Usagef("update takes documents, emcoctl update -f FILE, or one deployment intent group, emcoctl update PROJECT/COMPOSITEAPP/VERSION/GROUP")
			}
			s.KeepsExitCodes = true
			return d.Run(c.Context(), s, args[0])
		}),
	}
	d.Flags(c)
	return c
}
