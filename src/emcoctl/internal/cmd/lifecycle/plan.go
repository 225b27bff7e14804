package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/apply"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/document"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/preview"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// planCommand holds the flags of plan and diff.
type planCommand struct {
	actionRequest
	all  bool
	diff bool
}

// plans are the actions that can be planned.
var plans = []string{"instantiate", "update", "rollback", "migrate"}

const planLong = `

Without --action it is what comes next: update if the deployment is instantiated, else
instantiate; rollback if there is --revision, migrate if there is --to. Nothing is
written anywhere.

With -f, the documents of the files are compared with the server's; %s.
Then the actions among them are planned. These plans are of the documents that the server has
now: a deployment that is not there, or not approved, cannot be planned yet.

Exit codes: 0 nothing would change, 1 something would, above 1 an error (7: an app cannot
be rendered; see emcoctl help exit-codes).`

// newPlanCommand returns the command that shows what an action would do.
func newPlanCommand(s *session.Session) *cobra.Command {
	return newPlanningCommand(s, planCommand{}, "plan", "Show what an action would do",
		"Plan shows the placements of each app with their reasons, the changes of its objects, and\nwhat is wrong."+fmt.Sprintf(planLong, "those that differ are listed"))
}

// newDiffCommand returns the command that shows the differences that an action would make.
func newDiffCommand(s *session.Session) *cobra.Command {
	return newPlanningCommand(s, planCommand{diff: true}, "diff", "Show the differences that an action would make",
		"Diff prints a unified diff of YAML for each object that would change, once for all\nclusters on which it does. Values of Secrets are hidden, but not that they differ."+
			fmt.Sprintf(planLong, "the differences\nare shown"))
}

func newPlanningCommand(s *session.Session, p planCommand, name, short, long string) *cobra.Command {
	c := &cobra.Command{
		Use: name + " (GROUP | -f FILE...)", Short: short, Long: long,
		Example:           "  emcoctl " + name + " shop/till/v1/autumn\n  emcoctl " + name + " shop/till/v1/autumn --revision 3\n  emcoctl " + name + " -f deploy.yaml",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: complete.New(s).Group,
		RunE: s.Run(func(c *cobra.Command, args []string) error {
			return planError(runPlan(c.Context(), s, p, args))
		}),
	}
	f := c.Flags()
	f.StringVar(&p.name, "action", "", "what to plan: "+strings.Join(plans, ", "))
	f.Int64Var(&p.revision, "revision", 0, "plan a rollback to this revision")
	f.StringVar(&p.target, "to", "", "plan a migration to VERSION/GROUP")
	f.BoolVar(&p.all, "all", false, "name every cluster, and what stays")
	complete.Flag(c, "action", complete.Fixed(plans))
	complete.Flag(c, "revision", complete.New(s).Revisions)
	complete.Flag(c, "to", complete.New(s).Siblings)
	return c
}

// RefusedPlan is an error of plan and diff: its exit code is above 1.
type RefusedPlan struct{ error }

func (e RefusedPlan) Unwrap() error { return e.error }

func planError(err error) error {
	if err == nil || errors.Is(err, ErrChanges) || errors.Is(err, ErrBroken) {
		return err
	}
	return RefusedPlan{err}
}

// The results of plan and diff, which are printed already.
var (
	ErrChanges = errors.New("something would change")
	ErrBroken  = errors.New("an app cannot be rendered")
)

// runPlan plans the deployment of the command line, or those of the documents.
func runPlan(ctx context.Context, s *session.Session, p planCommand, args []string) error {
	if err := p.complete(); err != nil {
		return err
	}
	path, err := s.Subject(args)
	if err != nil {
		return err
	}
	form, err := s.FormatOfOwnCommands()
	if err != nil {
		return err
	}
	run := &planRun{Session: s, form: form, diff: p.diff, all: p.all}
	if path == "" {
		return run.documents(ctx, p)
	}
	if name := actionOf(path); slices.Contains(plans, name) && p.name == "" {
		p.name = name
	}
	if path, err = session.Deployment(path); err != nil {
		return err
	}
	if err := run.plan(ctx, path, p.actionRequest); err != nil {
		return err
	}
	return run.end()
}

// complete derives the action from the flags.
func (p *planCommand) complete() error {
	switch {
	case p.name == "" && p.revision > 0:
		p.name = "rollback"
	case p.name == "" && p.target != "":
		p.name = "migrate"
	case p.name == "":
		return nil
	case !slices.Contains(plans, p.name):
		return session.Usagef("--action: %q has no plan; use one of %s", p.name, strings.Join(plans, ", "))
	case p.revision != 0 && p.name != "rollback", p.target != "" && p.name != "migrate":
		return session.Usagef("--revision is for rollback, --to for migrate")
	}
	return p.check()
}

// planRun is one run of plan or diff.
type planRun struct {
	*session.Session
	form    output.Format
	diff    bool
	all     bool              // name every cluster
	changed bool              // something would change, or a document differs
	broken  bool              // an app cannot be rendered
	texts   []json.RawMessage // plans, for -o json
	many    bool
}

// plan requests one plan and shows it.
func (s *planRun) plan(ctx context.Context, path string, x actionRequest) error {
	c, err := s.Dial(path)
	if err != nil {
		return err
	}
	state := ""
	if x.name == "" {
		if x.name, state, err = next(ctx, c, path); err != nil {
			return err
		}
	}
	p, text, err := x.plan(ctx, c, path)
	if errs.Is(err, errs.Conflict) && state == "Created" {
		return fmt.Errorf("%w\napprove it first: emcoctl approve %s", err, path)
	}
	if err != nil {
		return err
	}
	s.changed = s.changed || !p.Summary.Empty()
	s.broken = s.broken || p.Summary.Failed > 0
	switch {
	case s.form != output.Human:
		s.texts = append(s.texts, text)
	case s.diff && p.Summary.Empty() && p.Summary.Failed == 0:
		fmt.Fprintf(s.Sys.Err, "note: %s would change nothing\n", p.Action)
	case s.diff:
		return preview.Diff(s.Sys.Out, p, preview.Options{All: s.all, Colour: s.Colour()})
	default:
		showPlan(s.Session, path, p, x, preview.Options{All: s.all, Colour: s.Colour()})
	}
	return nil
}

// next returns the action that rolls out the present documents, and the state of the deployment.
func next(ctx context.Context, c *client.Client, path string) (action, state string, err error) {
	st, _, err := fetch.Status(ctx, c, path, "status=deployed&output=summary")
	if err != nil {
		return "", "", err
	}
	if n := len(st.States.Actions); n > 0 {
		state = st.States.Actions[n-1].State
	}
	if slices.Contains([]string{"Instantiated", "InstantiateStopped"}, state) {
		return "update", state, nil
	}
	return "instantiate", state, nil
}

// end prints the collected plans, and returns the result.
func (s *planRun) end() error {
	if s.form != output.Human {
		text := []byte("[]")
		if !s.many && len(s.texts) == 1 {
			text = s.texts[0]
		} else if len(s.texts) > 0 {
			var err error
			if text, err = json.Marshal(s.texts); err != nil {
				return err
			}
		}
		if err := output.Encode(s.Sys.Out, s.form, text); err != nil {
			return err
		}
	}
	switch {
	case s.broken:
		return ErrBroken
	case s.changed:
		return ErrChanges
	}
	return nil
}

// documents compares the documents of -f with the server's and plans the actions among
// them, each deployment once.
func (s *planRun) documents(ctx context.Context, p planCommand) error {
	docs, err := s.Load()
	if err != nil {
		return err
	}
	s.many = true
	if err := s.differences(ctx, docs); err != nil {
		return err
	}
	if s.form == output.Human && !s.diff {
		fmt.Fprintln(s.Sys.Out)
	}
	differ := s.changed
	seen := map[string]bool{}
	for _, doc := range docs {
		x, path := p.actionRequest, anchor.Parent(doc.Anchor)
		name := actionOf(doc.Anchor)
		if !slices.Contains(plans, name) || anchor.Collection(path) != kind.Groups || seen[path] {
			continue
		}
		if differ && len(seen) == 0 {
			fmt.Fprintln(s.Sys.Err, "note: plans of actions are of the documents on the server, before these are applied")
		}
		seen[path] = true
		if x.name == "" && name != "instantiate" { // a finished instantiation is followed by an update
			x.name = name
		}
		if name == "rollback" || name == "migrate" {
			x.body = doc.Body
		}
		switch err := s.plan(ctx, path, x); {
		case errs.Is(err, errs.NotFound):
			s.changed = true
			fmt.Fprintf(s.Sys.Err, "note: %s cannot be planned yet: %v; apply its documents first\n", path, printable.Line(err.Error()))
		case errs.Is(err, errs.Conflict):
			s.changed = true
			fmt.Fprintf(s.Sys.Err, "note: %s cannot be planned yet: %v\n", path, printable.Line(err.Error()))
		case err != nil:
			return err
		}
	}
	if len(seen) == 0 && !s.changed {
		fmt.Fprintln(s.Sys.Err, "note: no document differs from the server's, and none is an action with a plan")
	}
	return s.end()
}

// differences compares the documents with the server's, and shows the result: plan as a
// table, diff as diffs.
func (s *planRun) differences(ctx context.Context, docs []document.Document) error {
	servers, err := s.Servers()
	if err != nil {
		return err
	}
	counts := map[output.Outcome]int{}
	table := output.NewTable(s.Sys.Out)
	table.Row("DOCUMENT", "CHANGE", "FILE")
	options, err := s.ClientOptions(servers)
	if err != nil {
		return err
	}
	e := apply.New(apply.Options{Servers: servers, Client: options})
	for _, doc := range docs {
		d, err := e.Compare(ctx, doc)
		if err != nil {
			return err
		}
		if anchor.IsAction(doc.Anchor) {
			continue
		}
		counts[d.Outcome]++
		if d.Outcome == output.Unchanged {
			continue
		}
		s.changed = true
		table.Row(d.Path, documentChanges[d.Outcome], doc.At.String())
		if s.form != output.Human || s.diff {
			fmt.Fprintf(s.Sys.Err, "note: %s %s\n", d.Path, d.Note)
		}
		if s.diff && s.form == output.Human && d.Local != nil {
			if err := preview.Document(s.Sys.Out, d.Path, doc.At.String(), d.Server, d.Local, preview.Options{All: s.all, Colour: s.Colour()}); err != nil {
				return err
			}
		}
	}
	if s.form == output.Human && !s.diff && len(counts) > 0 {
		if counts[output.Created]+counts[output.Configured] > 0 {
			table.Flush()
			fmt.Fprintln(s.Sys.Out)
		}
		fmt.Fprintf(s.Sys.Out, "documents: %d to create, %d to configure, %d unchanged\n", counts[output.Created], counts[output.Configured], counts[output.Unchanged])
	}
	return nil
}

// documentChanges name what apply would do with a document.
var documentChanges = map[output.Outcome]string{output.Created: "create", output.Configured: "configure"}
