// Package identity holds the commands that sign a person in and out, say who may do what, and manage API tokens.
package identity

import (
	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// Commands returns the commands of the package.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{newLoginCommand(s), newLogoutCommand(s), newAuthCommand(s)}
}

// newAuthCommand returns the command for questions about permissions, and for API tokens.
func newAuthCommand(s *session.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "auth", Short: "Ask who may do what, and manage API tokens",
		Example: "  emcoctl auth whoami\n  emcoctl auth can-i delete shop/till/v1/autumn\n  emcoctl auth token create ci --role deployer --place projects/shop",
		Args:    cobra.NoArgs,
		RunE:    s.Run(func(c *cobra.Command, _ []string) error { return c.Help() }),
	}
	c.AddCommand(newWhoamiCommand(s), newCanICommand(s), newWhoCanCommand(s), newTokenCommand(s))
	return c
}

// anyPath is a path of the server that answers the questions of this package.
const anyPath = "projects"
