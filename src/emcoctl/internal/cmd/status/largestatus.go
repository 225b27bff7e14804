package status

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/overview"
)

// manyPairs is the number of apps on clusters above which status does not read them all: the
// server has counts and the worst clusters in memory.
const manyPairs = 2000

// viewLetters are the letters of states in a matrix.
var viewLetters = map[rune]string{
	'f': v2.ViewFailed, 'x': v2.ViewNotReady, 'u': v2.ViewUnknown, 'b': v2.ViewBlocked,
	'd': v2.ViewLeaving, 'p': v2.ViewProgressing, 'r': v2.ViewReady,
}

// largeStatus is the status of a deployment with many apps on clusters.
type largeStatus struct {
	deployment v2.DeploymentView
	matrix     v2.MatrixView // its worst clusters
}

// readLarge reads the status of a large deployment; not ok if the deployment is small, or if the
// server has no views.
func readLarge(ctx context.Context, c *client.Client, path string, f pairFilter) (l largeStatus, ok bool) {
	if anchor.Collection(path) != kind.Groups || len(f.clusters)+len(f.phases) > 0 || f.all {
		return l, false
	}
	q := url.Values{"limit": {strconv.Itoa(maxPairs)}, "app": f.apps}
	matrix, err := client.Get[v2.MatrixView](ctx, c, "views/"+path+"/matrix?"+q.Encode())
	if err != nil || overview.Sum(matrix.Counts) <= manyPairs {
		return l, false
	}
	l.matrix = matrix
	o, _ := overview.Of(kind.Groups)
	o.Query.Set("project", strings.Split(path, "/")[1])
	o.Query.Set("q", path)
	items, err := o.Read(ctx, c)
	if err != nil {
		return l, false
	}
	for _, item := range items {
		var d v2.DeploymentView
		if json.Unmarshal(item, &d) == nil && d.Path == path {
			l.deployment = d
			return l, true
		}
	}
	return l, false
}

// show prints the counts, and the clusters on which an app is not ready.
func (l largeStatus) show(w io.Writer) {
	d := l.deployment
	ready := fmt.Sprintf("%d/%d", d.Counts[v2.ViewReady], overview.Sum(d.Counts))
	output.Fields(
		w, [2]string{"name", d.Path}, [2]string{"state", d.Lifecycle + ", revision " + output.Number(d.Revision)}, [2]string{"deployed", d.Deployed},
		[2]string{"ready", ready + " (" + overview.Counts(d.Counts) + ")"}, [2]string{"since", output.Since(d.Since)}, [2]string{"author", d.Author},
		[2]string{"reason", d.Reason}, [2]string{"why", d.Why}, [2]string{"moved to", d.MovedTo},
	)
	t := output.NewTable(w)
	shown := 0
	t.Row("CLUSTER", "APPS", "SEEN", "COMMIT", "WHY")
	for _, r := range l.matrix.Items {
		apps := notReady(l.matrix.Apps, r.Cells)
		if apps == "" {
			continue
		}
		shown++
		t.Row(v2.NewClusterKey(r.Provider, r.Cluster).String(), apps, output.Age(r.LastHeard, time.Now()), output.Commit(r.Commit), r.Why)
	}
	fmt.Fprintln(w)
	if shown > 0 {
		t.Flush()
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "the worst %d of %d clusters are listed; select with --app and --cluster, or list --all\n", shown, l.matrix.Total)
}

// notReady names the apps of a row that are not ready, with their states.
func notReady(apps []string, cells string) string {
	var parts []string
	for i, letter := range cells {
		if state := viewLetters[letter]; i < len(apps) && state != "" && state != v2.ViewReady {
			parts = append(parts, apps[i]+" "+state)
		}
	}
	return strings.Join(parts, ", ")
}
