package status

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/progress"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// maxPairs is the number of apps on clusters that status lists without --all.
const maxPairs = 20

// pairFilter selects apps on clusters.
type pairFilter struct {
	apps, clusters, phases []string
	failed, all            bool
}

func (f *pairFilter) flags(s *session.Session, c *cobra.Command) {
	c.Flags().StringSliceVar(&f.apps, "app", nil, "only these apps")
	c.Flags().StringSliceVar(&f.clusters, "cluster", nil, "only these clusters, PROVIDER/CLUSTER")
	c.Flags().StringSliceVar(&f.phases, "phase", nil, "only these phases, such as Applied, Pending, Failed")
	c.Flags().BoolVar(&f.failed, "failed", false, "only what is not as desired")
	c.Flags().BoolVar(&f.all, "all", false, "list every app on every cluster")
	complete.Flag(c, "phase", complete.Fixed(phases()))
	complete.Flag(c, "app", complete.New(s).Apps)
	complete.Flag(c, "cluster", complete.New(s).Clusters())
}

// phases returns those that an app on a cluster may be in.
func phases() []string { return []string{"Applied", "Pending", "Retrying", "Failed", "Deleting"} }

// check refuses phases that do not exist, and converts clusters to the form of the API.
func (f *pairFilter) check() error {
	for _, name := range f.phases {
		if !slices.ContainsFunc(phases(), func(p string) bool { return strings.EqualFold(p, name) }) {
			return session.Usagef("--phase: %q is none of %s", name, strings.Join(phases(), ", "))
		}
	}
	for i, name := range f.clusters {
		key, err := session.ClusterKey(name)
		if err != nil {
			return session.Usagef("--cluster: %w", err)
		}
		f.clusters[i] = key.String()
	}
	return nil
}

// query returns the filters of the server, for the end of a query.
func (f *pairFilter) query() string {
	q := url.Values{"app": f.apps, "cluster": f.clusters}.Encode()
	if q != "" {
		q = "&" + q
	}
	return q
}

// admits reports whether a row passes the filters; the server has applied those of apps and
// clusters, except for what leaves.
func (f *pairFilter) admits(r pairRow) bool {
	in := func(all []string, s string) bool { return len(all) == 0 || slices.Contains(all, s) }
	phase := len(f.phases) == 0 || slices.ContainsFunc(f.phases, func(p string) bool { return strings.EqualFold(p, r.phase) })
	return in(f.apps, r.app) && in(f.clusters, r.cluster) && phase && (!f.failed || !r.good)
}

// pairRow is an app on a cluster.
type pairRow struct {
	app, cluster, phase, revision, commit, ready, message string
	good                                                  bool // as desired
}

// pairRows lists the apps on their clusters, then those that EMCO removes.
func pairRows(s v2.Status) (rows []pairRow) {
	for _, p := range progress.Pairs(s) {
		ready := readiness(p.Resources)
		if p.Stale && ready != "" {
			ready = "unknown"
		}
		rows = append(rows, pairRow{
			app: p.App, cluster: p.Key().String(), phase: p.Phase, revision: output.Number(p.Revision), commit: output.Commit(p.Commit),
			ready: ready, message: message(p), good: p.Phase == "Applied" && p.Error == "" && allReady(ready),
		})
	}
	for _, l := range s.Leaving {
		rows = append(rows, pairRow{app: l.App, cluster: l.Key().String(), phase: l.Phase, message: leavingMessage(l)})
	}
	return rows
}

// allReady reports whether counts of ready objects are complete.
func allReady(counts string) bool {
	ready, all, counted := strings.Cut(counts, "/")
	return counts == "" || counted && ready == all
}

// showPairs prints a line for each selected row. If there are many, it counts them by app, and
// prints those that are not as desired.
func showPairs(w io.Writer, all []pairRow, f pairFilter) {
	rows := slices.DeleteFunc(slices.Clone(all), func(r pairRow) bool { return !f.admits(r) })
	filtered := len(f.apps)+len(f.clusters)+len(f.phases) > 0
	if len(all) == 0 && !filtered {
		return
	}
	fmt.Fprintln(w)
	if len(rows) == 0 && f.failed && !filtered {
		fmt.Fprintln(w, "every app is as desired on every cluster")
		return
	}
	if len(rows) == 0 {
		fmt.Fprintln(w, "no app on any cluster passes the filters")
		return
	}
	if len(rows) <= maxPairs || f.all {
		listPairs(w, rows)
		return
	}
	countPairs(w, rows)
	bad := slices.DeleteFunc(slices.Clone(rows), func(r pairRow) bool { return r.good })
	listed := bad[:min(len(bad), maxPairs)]
	if len(listed) > 0 {
		fmt.Fprintln(w)
		listPairs(w, listed)
	}
	fmt.Fprintf(w, "\n%d of %d are as desired, %d others are not listed; select with --app, --cluster, --phase, --failed, or list --all\n",
		len(rows)-len(bad), len(rows), len(bad)-len(listed))
}

func listPairs(w io.Writer, rows []pairRow) {
	t := output.NewTable(w)
	t.Row("APP", "CLUSTER", "PHASE", "REVISION", "COMMIT", "READY", "MESSAGE")
	for _, r := range rows {
		t.Row(r.app, r.cluster, r.phase, r.revision, r.commit, r.ready, r.message)
	}
	t.Flush()
}

// countPairs prints a line for each app.
func countPairs(w io.Writer, rows []pairRow) {
	type appCounts struct {
		clusters, ready, unknown int
		phases                   map[string]int
	}
	var names []string
	apps := map[string]*appCounts{}
	for _, r := range rows {
		c := apps[r.app]
		if c == nil {
			c = &appCounts{phases: map[string]int{}}
			apps[r.app], names = c, append(names, r.app)
		}
		c.clusters++
		c.phases[r.phase]++
		switch {
		case r.ready == "unknown":
			c.unknown++
		case r.good:
			c.ready++
		}
	}
	t := output.NewTable(w)
	t.Row("APP", "CLUSTERS", "READY", "UNKNOWN", "PHASES")
	for _, name := range names {
		c := apps[name]
		t.Row(name, strconv.Itoa(c.clusters), strconv.Itoa(c.ready), strconv.Itoa(c.unknown), progress.Counts(c.phases))
	}
	t.Flush()
}

// leavingMessage returns why an app is still on a cluster that it leaves.
func leavingMessage(l v2.Leaving) string {
	switch {
	case l.Error != "":
		return "leaving: " + progress.LeavingError(l)
	case l.Blocked != "":
		return "leaving; blocked: " + l.Blocked
	}
	return "leaving"
}

// readiness counts the objects that are ready: "3/4"; "unknown" if the cluster has reported
// none of them, "" without objects in the answer.
func readiness(resources []v2.ResourceStatus) string {
	ready, known, silent := 0, 0, 0
	for _, r := range resources {
		switch r.ReadyStatus {
		case "":
			continue
		case v2.Ready:
			ready++
		case progress.Unknown:
			silent++
		}
		known++
	}
	switch known {
	case 0:
		return ""
	case silent:
		return "unknown"
	}
	return fmt.Sprintf("%d/%d", ready, known)
}

// message returns the pair's error, what it waits for, the time of its cluster's last report
// if that is old, or the reason of the first object that is not ready. It leaves out the findings, which are printed above.
func message(p progress.Pair) string {
	if p.Error != "" || p.Blocked != "" || p.Stale {
		return progress.ClusterDetail(p.ClusterStatus)
	}
	for _, r := range p.Resources {
		if r.Reason != "" && r.ReadyStatus == progress.Unknown {
			return r.Reason
		}
		if r.Reason != "" && r.ReadyStatus != v2.Ready {
			return r.GVK.Kind + " " + r.Name + ": " + r.Reason
		}
	}
	if p.Connectivity == "Retrying" || p.Connectivity == "Unknown" {
		return "connectivity: " + p.Connectivity
	}
	return ""
}
