package status

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/progress"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// newTreeCommand returns the command that shows a deployment as a tree.
func newTreeCommand(s *session.Session) *cobra.Command {
	var depth int
	var onlyBad bool
	c := &cobra.Command{
		Use: "tree GROUP", Short: "Show a deployment as a tree: apps, clusters, objects",
		Long: `Tree shows the apps of a deployment, their clusters, and the objects there, each with a
mark:

  +  as desired            ~  not yet as desired
  !  something is wrong    ?  unknown: the cluster has not reported it

A node has the worst mark below it.`,
		Example:           "  emcoctl tree shop/till/v1/autumn\n  emcoctl tree shop/till/v1/autumn --only-bad\n  emcoctl tree shop/till/v1/autumn --depth 2",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: complete.New(s).Group,
		RunE: s.Run(func(c *cobra.Command, args []string) error {
			if depth < 0 || depth > 3 {
				return session.Usagef("--depth: %d is not 0 to 3", depth)
			}
			path, err := session.Deployment(args[0])
			if err != nil {
				return err
			}
			form, client, err := s.Open(path)
			if err != nil {
				return err
			}
			st, text, err := fetch.Status(c.Context(), client, path, progress.Ready.View())
			if err != nil {
				return err
			}
			if form != output.Human {
				return output.Encode(s.Sys.Out, form, text)
			}
			top := progress.Tree(st)
			top.Name = v2.ShortName(path)
			showTree(s.Sys.Out, top, depth, onlyBad)
			return nil
		}),
	}
	c.Flags().IntVar(&depth, "depth", 3, "levels: 1 apps, 2 clusters, 3 objects")
	c.Flags().BoolVar(&onlyBad, "only-bad", false, "omit what is as desired")
	return c
}

// showTree prints a node and its children down to a depth.
func showTree(w io.Writer, top progress.Node, depth int, onlyBad bool) {
	fmt.Fprintln(w, nodeLine(top))
	showBelow(w, top, "", depth, onlyBad)
}

// showBelow prints the children of a node, if they are not too deep.
func showBelow(w io.Writer, n progress.Node, indent string, depth int, onlyBad bool) {
	if depth == 0 {
		return
	}
	var shown []progress.Node
	for _, child := range n.Below {
		if !onlyBad || child.Mark != progress.Good {
			shown = append(shown, child)
		}
	}
	for i, child := range shown {
		branch, next := "├─ ", "│  "
		if i == len(shown)-1 {
			branch, next = "└─ ", "   "
		}
		fmt.Fprintln(w, indent+branch+nodeLine(child))
		showBelow(w, child, indent+next, depth-1, onlyBad)
	}
}

// nodeLine returns a node in one line: mark, name, state and details.
func nodeLine(n progress.Node) string {
	line := strings.TrimSpace(string(n.Mark) + " " + n.Name + "  " + n.State)
	if n.Why != "" {
		line += ": " + n.Why
	}
	return printable.Line(line)
}
