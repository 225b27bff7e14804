package cmd

import (
	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/apply"
)

// newGetCommand returns the command that reads.
func newGetCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "get (-f FILE... | ANCHOR)", Short: "Read documents or an anchor",
		Long:              "Get reads each document of the files as it is stored, or an anchor with its query if any.",
		Example:           "  emcoctl get projects\n  emcoctl get cluster-providers/edge/clusters?label=west -o json\n  emcoctl get -f edge.yaml",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completer{s}.anchor,
		RunE: s.run(func(c *cobra.Command, args []string) error {
			return runDocuments(c.Context(), s, anchor.Get, args, func(*apply.Options) {})
		}),
	}
}
