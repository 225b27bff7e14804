package cmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// newExplainCommand returns the command that describes the members of documents.
func newExplainCommand(s *session.Session) *cobra.Command {
	var recursive bool
	c := &cobra.Command{
		Use: "explain KIND[.MEMBER...]", Short: "Describe a kind of documents and its members",
		Long:    "Explain describes a kind of documents, or a member of it: its type, its limits, its meaning, the\nnames of older releases, and its own members. emcoctl api-resources lists the kinds.",
		Example: "  emcoctl explain clusters\n  emcoctl explain dig.spec.overrideValues\n  emcoctl explain app-intents --members",
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, word string) (names []string, _ cobra.ShellCompDirective) {
			for _, k := range kind.All() {
				if len(args) == 0 && k.Type != "" && strings.HasPrefix(k.Collection, word) {
					names = append(names, k.Collection)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: s.Run(func(_ *cobra.Command, args []string) error {
			if f, err := s.FormatOfOwnCommands(); err != nil || f != output.Human {
				return session.Usagef("explain prints text only; leave -o out")
			}
			k, m, at, err := kind.Lookup(args[0])
			if err != nil {
				return err
			}
			return explainKind(s.Sys.Out, k, m, at, recursive)
		}),
	}
	c.Flags().BoolVar(&recursive, "members", false, "also the members of members")
	return c
}

// explainKind prints a kind, or a member of it, at a path.
func explainKind(w io.Writer, k kind.Kind, m v2.Member, path string, recursive bool) error {
	comments, err := kind.Comments()
	if err != nil {
		return err
	}
	limits, err := k.Limits()
	if err != nil {
		return err
	}
	output.Fields(w, [2]string{"kind", k.Collection}, [2]string{"short", strings.Join(k.Short, ", ")}, [2]string{"anchor", k.Path()}, [2]string{"file", map[bool]string{true: "yes: its documents come with a file"}[k.File]})
	members, about := k.Members, comments[k.Type]
	if m.Name != "" {
		output.Fields(w, [2]string{"member", path}, [2]string{"type", m.Type}, [2]string{"limits", limits[path]}, [2]string{"aliases", strings.Join(m.Aliases, ", ")})
		members, about = m.Members, aboutMember(comments, m)
	}
	if about != "" {
		t := output.NewTable(w)
		fmt.Fprintln(w)
		t.Row(about)
		t.Flush()
	}
	if len(members) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := output.NewTable(w)
	t.Row("MEMBER", "TYPE", "MEANING", "LIMITS")
	rows := memberRows{t, comments, limits, recursive}
	rows.add(members, "", strings.TrimPrefix(path+".", "."))
	t.Flush()
	return nil
}

// memberRows writes a row for each member.
type memberRows struct {
	*output.Table
	comments, limits map[string]string
	recursive        bool
}

// add adds members, whose names are shown after a prefix, and whose paths begin with at.
func (r memberRows) add(members []v2.Member, prefix, at string) {
	for _, m := range members {
		r.Row(prefix+m.Name, m.Type, aboutMember(r.comments, m), r.limits[at+m.Name])
		if r.recursive {
			r.add(m.Members, prefix+m.Name+".", at+m.Name+".")
		}
	}
}

// aboutMember returns the comment of a member, otherwise that of its type.
func aboutMember(comments map[string]string, m v2.Member) string {
	if text := comments[m.Field]; text != "" || len(m.Members) == 0 {
		return text
	}
	owner, _, _ := strings.Cut(m.Members[0].Field, ".")
	return comments[owner]
}

// newResourcesCommand returns the command that lists the kinds of documents.
func newResourcesCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "api-resources", Short: "List the kinds of documents with their anchors", Args: cobra.NoArgs,
		RunE: s.Run(func(*cobra.Command, []string) error {
			if f, err := s.FormatOfOwnCommands(); err != nil || f != output.Human {
				return session.Usagef("api-resources prints a table only; leave -o out")
			}
			t := output.NewTable(s.Sys.Out)
			t.Row("KIND", "SHORT", "FILE", "ANCHOR")
			for _, k := range kind.All() {
				t.Row(k.Collection, strings.Join(k.Short, ","), map[bool]string{true: "yes"}[k.File], k.Path())
			}
			t.Flush()
			return nil
		}),
	}
}
