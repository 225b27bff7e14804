// Package lifecycle holds the commands that change what runs: the actions on deployments; plan and diff, which
// show what an action or files of documents would change; and wait, which waits for a goal. Package
// documents has the command update, which also replaces documents.
package lifecycle

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/preview"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/progress"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// Commands returns the commands of the package. The command of the action update is in package
// documents.
func Commands(s *session.Session) []*cobra.Command {
	return append(newActionCommands(s), newPlanCommand(s), newDiffCommand(s), newWaitCommand(s))
}

// actionRequest is an action on a deployment.
type actionRequest struct {
	name     string // as in URLs
	reason   string
	force    bool
	revision int64  // that a rollback restores, or a promotion means
	target   string // of a migration: VERSION/GROUP
	wave     int    // of a promotion: after which the rollout goes on; 0 for the only pause
	full     bool   // of a promotion: nothing waits for waves any more
	body     []byte // of a document; nil for none
	digest   string // of the plan that it must carry out; empty for any outcome
}

// flags adds the flags of the action.
func (x *actionRequest) flags(c *cobra.Command) {
	if x.name == "rollback" {
		c.Flags().Int64Var(&x.revision, "revision", 0, "number of the revision to restore; emcoctl revisions lists them")
	}
	if x.name == "promote" {
		c.Flags().Int64Var(&x.revision, "revision", 0, "the revision that is meant: if another one is desired by now, nothing is done")
		c.Flags().IntVar(&x.wave, "wave", 0, "go on after this wave, counted from 1; it may be left out if the rollout pauses once")
		c.Flags().BoolVar(&x.full, "full", false, "let all clusters change now, without waiting for waves any more")
	}
	if x.name == "migrate" {
		c.Flags().StringVar(&x.target, "to", "", "VERSION/GROUP of the deployment intent group that takes over")
	}
}

// plannable reports whether the action has a dry run, and may need --force.
func (x actionRequest) plannable() bool {
	switch x.name {
	case "instantiate", "update", "rollback", "migrate":
		return true
	}
	return false
}

// check reports what is missing.
func (x actionRequest) check() error {
	switch {
	case x.body != nil:
	case x.name == "rollback" && x.revision <= 0:
		return session.Usagef("rollback needs the revision to return to, such as --revision 3; list them with: emcoctl revisions GROUP")
	case x.wave < 0 || x.wave > 0 && x.full:
		return session.Usagef("promote takes either --wave, from 1, or --full")
	case x.name == "migrate" && strings.Count(strings.Trim(x.target, "/"), "/") != 1:
		return session.Usagef("migrate needs --to VERSION/GROUP, the deployment intent group that takes over")
	}
	return nil
}

// request returns the request for the action, or, with dry, for its plan.
func (x actionRequest) request(path string, dry bool) (client.Request, error) {
	q := url.Values{}
	if x.reason != "" {
		q.Set("reason", x.reason)
	}
	if x.force {
		q.Set("force", "true")
	}
	if dry {
		q.Set("dryRun", "true")
	}
	r := client.Request{Method: http.MethodPost, Path: path + "/" + x.name, Accept: client.JSONType}
	if len(q) > 0 {
		r.Path += "?" + q.Encode()
	}
	text, err := x.document()
	if text != nil {
		r.Body = client.JSON(text)
	}
	return r, err
}

// document returns the body of the action; nil for none.
func (x actionRequest) document() ([]byte, error) {
	version, group, _ := strings.Cut(strings.Trim(x.target, "/"), "/")
	switch {
	case x.body != nil:
		return x.body, nil
	case x.name == "rollback":
		return json.Marshal(v2.Rollback{Spec: v2.RollbackSpec{Revision: strconv.FormatInt(x.revision, 10)}})
	case x.name == "promote":
		return json.Marshal(v2.Promote{Spec: v2.PromoteSpec{Revision: x.revision, Wave: x.wave, Full: x.full}})
	case x.name == "migrate":
		return json.Marshal(v2.Migrate{Spec: v2.MigrateSpec{Version: version, Group: group}})
	}
	return nil, nil
}

// The pauses between attempts of one action. Its key makes the server act only once.
var retries = []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}

// send sends the action until there is an answer, with a few attempts at most.
func (x actionRequest) send(ctx context.Context, c *client.Client, path string) (*client.Response, error) {
	r, err := x.request(path, false)
	if err != nil {
		return nil, err
	}
	r.Key, r.IfPlan = rand.Text(), x.digest
	for try := 0; ; try++ {
		res, err := c.Ask(ctx, r)
		if !errs.Is(err, errs.Unavailable) && !errs.Is(err, errs.Throttled) || try == len(retries) {
			return res, err
		}
		if fetch.Pause(ctx, max(retries[try], errs.RetryAfter(err))) != nil {
			return nil, err
		}
	}
}

// plan requests the plan of the action.
func (x actionRequest) plan(ctx context.Context, c *client.Client, path string) (p v2.Plan, text json.RawMessage, err error) {
	r, err := x.request(path, true)
	if err != nil {
		return p, nil, err
	}
	res, err := c.Ask(ctx, r)
	if err == nil && res.Status != http.StatusOK {
		err = errs.E(errs.Internal, "plan", path, fmt.Errorf("the server has no dry runs: it answered %d and has executed the %s", res.Status, x.name))
	}
	if err == nil {
		err = res.Decode(&p)
	}
	if err != nil {
		return p, nil, err
	}
	return p, res.Body, nil
}

// actionText holds the help texts of the actions' commands.
var actionText = []struct{ name, short, long string }{
	{"approve", "Allow a deployment to be instantiated", ""},
	{"instantiate", "Deploy what the documents describe", ""},
	{"rollback", "Restore an earlier revision as the next one", "Content and placements are those of --revision; nothing is rendered."},
	{"migrate", "Hand a deployment over to another deployment intent group", "The other group, --to VERSION/GROUP of the same composite app, must be approved. Its\ndocuments replace what runs."},
	{"promote", "Let a rollout go on after a pause", "The revision stays. Its next wave begins when the waves before are ready; --full lets all\nclusters change at once."},
	{"stop", "Stop reconciling a deployment", "Objects on clusters stay as they are."},
	{"terminate", "Remove a deployment from its clusters", ""},
}

// newActionCommands returns the commands that act on a deployment, except for update.
func newActionCommands(s *session.Session) []*cobra.Command {
	var all []*cobra.Command
	for _, text := range actionText {
		all = append(all, newActionCommand(s, text.name, text.short, text.long))
	}
	return all
}

// Command holds the flags of an action's command.
type Command struct {
	actionRequest
	dry, wait bool
	yes       bool // do not ask
	timeout   time.Duration
}

// CommandOf returns the action of this name, as in URLs.
func CommandOf(name string) Command {
	return Command{actionRequest: actionRequest{name: name}}
}

// Flags adds the flags of the command.
func (d *Command) Flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&d.reason, "reason", "", "why, for the history of the deployment")
	f.BoolVar(&d.wait, "wait", false, waitText(d.name))
	f.DurationVar(&d.timeout, "timeout", 5*time.Minute, "how long to wait")
	if d.plannable() {
		f.BoolVar(&d.dry, "dry-run", false, "only show what the action would do")
		f.StringVar(&d.digest, "plan", "", "carry out this plan or nothing: the digest that emcoctl plan prints")
		f.BoolVarP(&d.yes, "yes", "y", false, "on a terminal, do not show the plan and ask")
	} else if d.name == "terminate" {
		f.BoolVarP(&d.yes, "yes", "y", false, "on a terminal, do not ask")
	}
	if d.plannable() {
		f.BoolVar(&d.force, "force", false, "confirm the removal of many placements, or of most objects of an app")
	}
	d.actionRequest.flags(c)
}

// asksText tells, in the help, what the command asks on a terminal.
func (x actionRequest) asksText() string {
	switch {
	case x.plannable():
		return ` On a terminal the command shows its plan and asks; it carries out that
plan or nothing. --plan does the same with the digest of emcoctl plan. `
	case x.name == "terminate":
		return ` On a terminal the command asks. `
	}
	return " "
}

// cloudText tells, in the help, whether logical clouds have the action, too.
func (x actionRequest) cloudText() string {
	if x.name == "promote" {
		return ""
	}
	return " or\na logical cloud"
}

// waitText is the help text of --wait for an action.
func waitText(action string) string {
	switch GoalOf[action] {
	case progress.Instantiated:
		return "wait until everything is applied to direct clusters and pushed for the others, or has failed; emcoctl wait waits until it is ready"
	case progress.Terminated:
		return "wait until everything is removed from direct clusters and from where the others read, or has failed"
	}
	return "no effect for this action"
}

func newActionCommand(s *session.Session, name, short, long string) *cobra.Command {
	d := CommandOf(name)
	if long != "" {
		long = "\n" + long
	}
	c := &cobra.Command{
		Use: name + " GROUP" + map[string]string{"rollback": " --revision NUMBER", "migrate": " --to VERSION/GROUP"}[name], Short: short,
		Long: short + `.` + long + `

GROUP is PROJECT/COMPOSITEAPP/VERSION/GROUP, or the path of a deployment intent group` + d.cloudText() + `.` + d.asksText() + `The request has a
key of its own, so that it is done once even if the answer is lost and emcoctl asks again.
For the exit codes see emcoctl help exit-codes.`,
		Example:           "  emcoctl " + name + " shop/till/v1/autumn" + map[string]string{"rollback": " --revision 3", "migrate": " --to v2/autumn"}[name],
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: complete.New(s).Group,
		RunE:              s.Run(func(c *cobra.Command, args []string) error { return d.Run(c.Context(), s, args[0]) }),
	}
	d.Flags(c)
	switch name {
	case "rollback":
		complete.Flag(c, "revision", complete.New(s).Revisions)
	case "migrate":
		complete.Flag(c, "to", complete.New(s).Siblings)
	case "promote":
		complete.Flag(c, "revision", complete.New(s).CurrentRevision)
	}
	return c
}

// Run requests the action on a deployment.
func (d Command) Run(ctx context.Context, s *session.Session, word string) error {
	path, err := session.Deployment(word)
	if err == nil {
		err = d.check()
	}
	if err != nil {
		return err
	}
	form, c, err := s.Open(path)
	if err != nil {
		return err
	}
	if d.dry {
		return showDryRun(ctx, s, form, c, path, d.actionRequest)
	}
	if s.Sys.Interactive && d.plannable() && d.digest == "" && !d.yes && form == output.Human {
		if d.digest, err = askPlan(ctx, s, c, path, d.actionRequest); err != nil {
			return err
		}
	}
	if s.Sys.Interactive && d.name == "terminate" && !d.yes && form == output.Human {
		if err := askTermination(ctx, s, c, path); err != nil {
			return err
		}
	}
	res, err := d.send(ctx, c, path)
	if client.StatusOf(err) == http.StatusPreconditionFailed {
		return fmt.Errorf("%w\nsee: emcoctl plan %s", err, path)
	}
	if err != nil {
		return err
	}
	if err := showAccepted(s, form, path, d.name, res); err != nil {
		return err
	}
	if goal, ok := GoalOf[d.name]; ok && d.wait {
		return Follow(ctx, s, c, d.outcome(path), goal, d.timeout)
	}
	return nil
}

// outcome returns the path of the deployment that shows the result of the action: for a
// migration, the one that takes over.
func (x actionRequest) outcome(path string) string {
	version, group, ok := strings.Cut(strings.Trim(x.target, "/"), "/")
	if x.name != "migrate" || !ok {
		return path
	}
	composite := anchor.Parent(anchor.Parent(anchor.Parent(path))) // projects/P/composite-apps/A
	return composite + "/" + version + "/" + kind.Groups + "/" + group
}

// actionAnswer is the output for an accepted action.
type actionAnswer struct {
	Path     string `json:"path"`
	Action   string `json:"action"`
	Result   string `json:"result"`
	Revision int64  `json:"revision,omitempty"` // if the server returns it
}

// showAccepted prints that the server has accepted an action.
func showAccepted(s *session.Session, form output.Format, path, name string, res *client.Response) error {
	out := actionAnswer{Path: path, Action: name, Result: string(output.Accepted)}
	if n, err := strconv.ParseInt(strings.TrimSpace(string(res.Body)), 10, 64); err == nil {
		out.Revision = n
	}
	if form != output.Human {
		text, err := json.Marshal(out)
		return errors.Join(err, output.Encode(s.Sys.Out, form, text))
	}
	line := fmt.Sprintf("%s/%s %s", path, name, out.Result)
	if out.Revision > 0 {
		line += fmt.Sprintf(", revision %d", out.Revision)
	}
	fmt.Fprintln(s.Sys.Out, line)
	return nil
}

// showDryRun prints the plan of an action: as a table, or as the server returned it.
func showDryRun(ctx context.Context, s *session.Session, form output.Format, c *client.Client, path string, x actionRequest) error {
	p, text, err := x.plan(ctx, c, path)
	if err != nil {
		return err
	}
	if form != output.Human {
		return output.Encode(s.Sys.Out, form, text)
	}
	showPlan(s, path, p, x, preview.Options{Colour: s.Colour()})
	return nil
}

// showPlan prints a plan, and the command that carries out exactly that.
func showPlan(s *session.Session, path string, p v2.Plan, x actionRequest, o preview.Options) {
	preview.Plan(s.Sys.Out, path, p, o)
	if p.Digest == "" || x.body != nil {
		return
	}
	if p.Action == "update" && p.Summary == (v2.PlanSummary{Keep: p.Summary.Keep}) {
		fmt.Fprintln(s.Sys.Out, "an update would change nothing on any cluster")
		return
	}
	args := []string{"emcoctl", p.Action, v2.ShortName(path)}
	switch p.Action {
	case "rollback":
		args = append(args, "--revision", strconv.FormatInt(x.revision, 10))
	case "migrate":
		args = append(args, "--to", x.target)
	}
	if p.Confirm != "" {
		args = append(args, "--force")
	}
	carry := "carry it out with:"
	if p.Summary.Failed > 0 {
		carry = "apps that fail stay as they are; carry out the rest with:"
	}
	fmt.Fprintln(s.Sys.Out, carry, strings.Join(append(args, "--plan", p.Digest), " "))
}

// errDeclined is the error of a user who has answered no.
var errDeclined = errors.New("nothing was done")

// maxReply bounds what is read of a user's reply.
const maxReply = 100

// askPlan shows the plan of an action, and returns its digest if the user agrees. It does not ask for what would be refused
// without --force.
func askPlan(ctx context.Context, s *session.Session, c *client.Client, path string, x actionRequest) (string, error) {
	p, _, err := x.plan(ctx, c, path)
	if err != nil {
		return "", err
	}
	preview.Plan(s.Sys.Out, path, p, preview.Options{Colour: s.Colour()})
	if p.Confirm != "" && !x.force {
		return "", fmt.Errorf("%w: repeat the command with --force, if that is meant", errDeclined)
	}
	return p.Digest, ask(s, "\n"+x.name+" now? [y/N] ")
}

// askTermination tells how much a termination removes, and returns an error unless the user agrees.
func askTermination(ctx context.Context, s *session.Session, c *client.Client, path string) error {
	st, _, err := fetch.Status(ctx, c, path, "status=deployed&output=summary")
	if err != nil {
		return err
	}
	objects := 0
	for state, n := range st.DeployedCounts {
		if state != "Deleted" {
			objects += n
		}
	}
	return ask(s, fmt.Sprintf("This removes %s from its clusters, with %d objects.\nterminate now? [y/N] ", v2.ShortName(path), objects))
}

// ask returns errDeclined unless the user answers yes.
func ask(s *session.Session, question string) error {
	fmt.Fprint(s.Sys.Err, question)
	reply, err := bufio.NewReader(io.LimitReader(s.Sys.In, maxReply)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if reply := strings.ToLower(strings.TrimSpace(reply)); reply != "y" && reply != "yes" {
		return errDeclined
	}
	return nil
}

// actionOf returns the action at the end of an anchor, "" for none.
func actionOf(path string) string {
	if anchor.IsAction(path) {
		return anchor.Last(path)
	}
	return ""
}
