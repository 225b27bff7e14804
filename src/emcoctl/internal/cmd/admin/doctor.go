package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/rest"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/api/version"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/overview"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// newDoctorCommand returns the command that checks a setup.
func newDoctorCommand(s *session.Session) *cobra.Command {
	var branches bool
	c := &cobra.Command{
		Use: "doctor", Short: "Check the connection, the server, its stores and the fleet",
		Long: `Doctor asks each address of the configuration: does it answer, may we read from it, is it
ready, does its clock differ, has it our version. If all do well, it counts the clusters
and deployments that are failed, not ready, unknown or blocked, and the Git branches that the
server cannot write, and names deployments without a document, documents without the record of
their deployment, and work that a process that has gone still owns. With --branches the server
also reads the branches that it writes, five for a request, and doctor warns of folders that
belong to no deployment. It prints what to do about a failed check, and exits with 1 if there
is one. It changes nothing.`,
		Args: cobra.NoArgs,
		RunE: s.Run(func(c *cobra.Command, _ []string) error {
			d := doctor{Session: s}
			d.examine(c.Context())
			if branches && d.connected {
				d.files(c.Context())
			}
			if d.failed > 0 {
				return errors.New(printable.Count(d.failed, "check") + " failed")
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&branches, "branches", false, "also read the Git branches, and name folders that no deployment owns")
	return c
}

// doctor is one run of the checks.
type doctor struct {
	*session.Session
	failed    int
	connected bool // the servers answer and are ready
}

// The marks of checks.
const (
	checkGood = "ok"
	checkWarn = "warn"
	checkFail = "fail"
)

// report prints the result of a check.
func (d *doctor) report(mark, check, format string, args ...any) {
	if mark == checkFail {
		d.failed++
	}
	fmt.Fprintf(d.Sys.Out, "%-5s%-12s %s\n", mark, check, printable.Line(fmt.Sprintf(format, args...)))
}

// fail prints a failed check with what to do.
func (d *doctor) fail(check string, err error) {
	text := err.Error()
	answered := errs.Is(err, errs.Unavailable) && client.StatusOf(err) != 0 // the advice is to ask the doctor
	if next := output.Next(err); next != "" && !answered {
		text += "; " + next
	}
	d.report(checkFail, check, "%s", text)
}

// serviceAnchors are anchors of all services that serve this program's commands.
var serviceAnchors = []string{"projects", "projects/p/logical-clouds", "cluster-providers", "git/branches"}

func (d *doctor) examine(ctx context.Context) {
	servers, err := d.Servers()
	if err != nil {
		d.fail("config", err)
		return
	}
	d.report(checkGood, "config", "%s", strings.TrimPrefix(servers.Notice, "Warning: ")) // upstream's word for the defaults
	var seen []string
	missing := 0 // sections of the configuration
	for _, path := range serviceAnchors {
		address, err := servers.For(path)
		if err != nil {
			d.fail("config", err)
			missing++
			continue
		}
		if slices.Contains(seen, address.URL) {
			continue
		}
		seen = append(seen, address.URL)
		if c, err := d.Dial(path); err != nil {
			d.fail("config", err)
		} else {
			d.server(ctx, c, path, address.URL)
		}
	}
	_, err = servers.For("views")
	if d.connected = d.failed == missing && err == nil; d.connected {
		d.fleet(ctx)
		d.branches(ctx)
		d.stores(ctx)
	}
}

// maxSkew is the difference of clocks that is no problem.
const maxSkew = 30 * time.Second

// server checks one address.
func (d *doctor) server(ctx context.Context, c *client.Client, path, url string) {
	began := time.Now()
	res, err := c.Do(ctx, client.Request{Method: http.MethodGet, Path: path, Accept: client.JSONType})
	took := time.Since(began)
	if err != nil {
		d.fail("server", err)
		return
	}
	d.report(checkGood, "server", "%s answers in %s", url, took.Round(time.Millisecond))
	switch err := res.Err(http.MethodGet, path); {
	case errs.Is(err, errs.NotFound) && path == "projects/p/logical-clouds": // there is no such project
	case err != nil:
		d.fail("access", err)
	default:
		d.report(checkGood, "access", "%s can be read", path)
	}
	if at, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		if skew := at.Sub(began); skew.Abs() > maxSkew {
			d.report(checkWarn, "clock", "the clock of the server differs by %s; ages are wrong by as much", skew.Round(time.Second))
		}
	}
	d.ready(ctx, c)
	d.version(ctx, c)
}

// ready checks whether the server is ready, and names each of its services that is not; older servers have no such path.
func (d *doctor) ready(ctx context.Context, c *client.Client) {
	_, err := c.Ask(ctx, client.Request{Method: http.MethodGet, Path: "/readyz"})
	switch {
	case errs.Is(err, errs.NotFound):
	case client.StatusOf(err) == http.StatusServiceUnavailable:
		refusal, _ := errors.AsType[*client.Refusal](err)
		for line := range strings.Lines(refusal.Text) {
			d.report(checkFail, "ready", notReady+"%s", line)
		}
	case err != nil:
		d.fail("ready", err)
	default:
		d.report(checkGood, "ready", "the server is ready")
	}
}

// notReady is how a server begins when one of its services is not ready.
const notReady = "not ready: "

// settingsDiffer is how a server begins when its settings differ from those of other processes.
const settingsDiffer = "these differ: "

func (d *doctor) version(ctx context.Context, c *client.Client) {
	theirs, err := client.Get[version.Info](ctx, c, "/version")
	if err != nil {
		return // older ones have no such path
	}
	ours := version.Read().Version
	mark := checkGood
	if ours != theirs.Version {
		mark = checkWarn
	}
	d.report(mark, "version", "the server is %s, emcoctl is %s", theirs.Version, ours)
	if level := readLevel(ctx, c); level != "" {
		mark := checkGood
		if strings.HasPrefix(level, notReady) {
			mark = checkWarn // a failure of the check "ready"
		}
		d.report(mark, "level", "%s", level)
	}
	if settings := readState(ctx, c, "settings"); settings != "" {
		mark := checkGood
		if strings.HasPrefix(settings, settingsDiffer) {
			mark = checkWarn
		}
		d.report(mark, "settings", "%s", settings)
	}
}

// fleet checks the states of clusters and deployments.
func (d *doctor) fleet(ctx context.Context) {
	for _, word := range []string{"clusters", "deployments"} {
		o, _ := overview.Of(word)
		o.Query["state"] = []string{v2.ViewFailed, v2.ViewNotReady, v2.ViewUnknown, v2.ViewBlocked}
		c, err := d.Dial("views")
		if err != nil {
			d.fail(word, err)
			continue
		}
		items, err := o.Read(ctx, c)
		if errs.Is(err, errs.NotFound) {
			return // an older server
		}
		if err != nil {
			d.fail(word, err)
			continue
		}
		if len(items) == 0 {
			d.report(checkGood, word, "none is failed, not ready, unknown or blocked")
			continue
		}
		var names []string
		for _, item := range items[:min(len(items), 3)] {
			path, err := o.Path(item)
			if err != nil {
				err = errors.New("the answer has no path")
				d.fail(word, err)
				return
			}
			if key, ok := v2.ClusterOf(path); ok {
				path = key.Provider() + "/" + key.Cluster()
			}
			names = append(names, v2.ShortName(path))
		}
		d.report(checkWarn, word, "%d failed, not ready, unknown or blocked: %s%s; see: emcoctl get %s -o wide",
			len(items), strings.Join(names, ", "), map[bool]string{true: ", …"}[len(items) > len(names)], word)
	}
}

// branches checks the states of the Git branches that the server writes. Servers without that view, and callers that may
// not list branches, have no such check.
func (d *doctor) branches(ctx context.Context) {
	c, err := d.Dial("views")
	if err != nil {
		d.fail("branches", err)
		return
	}
	page, err := rest.BranchPages.Get(ctx, c, url.Values{"state": {v2.LaneRewritten, v2.LaneRefused, v2.LaneResting}, "limit": {"1"}})
	switch {
	case errs.Is(err, errs.NotFound), errs.Is(err, errs.Forbidden):
		return
	case err != nil:
		d.fail("branches", err)
		return
	case len(page.Items) == 0:
		d.report(checkGood, "branches", "the server can write to all Git branches")
		return
	}
	worst := page.Items[0]
	d.report(checkWarn, "branches", "%d cannot be written: branch %s of %s is %s: %s; see: emcoctl branches", page.Total, worst.Branch, worst.URL, worst.State, worst.Why)
}

// stores asks whether the stores of the server agree.
func (d *doctor) stores(ctx context.Context) {
	answer, ok := d.faults(ctx, "stores", rest.Doctor, nil, "")
	if !ok {
		return
	}
	d.list(checkFail, "stores", answer)
	if len(answer.Faults) == 0 {
		d.report(checkGood, "stores", "documents, deployments and owners of work agree")
	}
}

// list reports faults.
func (d *doctor) list(mark, check string, answer v2.DoctorAnswer) {
	for _, f := range answer.Faults {
		d.report(mark, check, "%s: %s", f.Subject, f.Fault)
	}
	if answer.More > 0 {
		d.report(mark, check, "%s", printable.Count(answer.More, "more fault"))
	}
}

// files asks for files of nobody on all branches.
func (d *doctor) files(ctx context.Context) {
	found := 0
	for query := (url.Values{}); ; {
		answer, ok := d.faults(ctx, "files", rest.DoctorBranches, query, "not checked: this server writes no Git branches, or is older than the check")
		if !ok {
			return
		}
		d.list(checkWarn, "files", answer)
		found += len(answer.Faults)
		if answer.Continue == "" {
			break
		}
		query.Set("continue", answer.Continue)
	}
	if found == 0 {
		d.report(checkGood, "files", "all folders of deployments on the branches belong to a deployment")
	}
}

// faults asks for faults. Older servers, and servers without rsync, have no such checks: then it reports absent, unless that is empty.
// Callers may not be allowed to make them.
func (d *doctor) faults(ctx context.Context, check string, from rest.Query[v2.DoctorAnswer], query url.Values, absent string) (v2.DoctorAnswer, bool) {
	c, err := d.Dial("views")
	var answer v2.DoctorAnswer
	if err == nil {
		answer, err = from.Get(ctx, c, query)
	}
	switch {
	case errs.Is(err, errs.NotFound):
		if absent != "" {
			d.report(checkWarn, check, "%s", absent)
		}
		return answer, false
	case errs.Is(err, errs.Forbidden):
		d.report(checkWarn, check, "not checked: it needs the role auditor or platform-admin")
		return answer, false
	case err != nil:
		d.fail(check, err)
		return answer, false
	}
	return answer, true
}
