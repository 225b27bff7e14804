package statusview

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Options limit the age of reports and the load of streams.
type Options struct {
	Stale    time.Duration    // age above which an agent's report does not count
	Interval time.Duration    // shortest time between two answers of a stream
	Streams  int              // number of streams at the same time
	Now      func() time.Time // the clock that measures the age of reports

	UpstreamWords bool // readyStatus has upstream's words only: Unknown reads NotPresent or NotReady
}

// Default returns the options that fit agents that report at least every minute.
func Default() Options {
	return Options{Stale: 3 * time.Minute, Interval: time.Second, Streams: 100, Now: time.Now}
}

// ContextReader reads deployments, their revisions and content.
type ContextReader interface {
	lifecycle.HeadReader
	// Revision returns revision n of a deployment, or NotFound.
	Revision(ctx context.Context, id appcontext.HeadID, n int64) (appcontext.Revision, error)
	// Placements returns where revision n places its apps; DesiredPlacements is for a revision that a head desires.
	Placements(ctx context.Context, id appcontext.HeadID, n int64) ([]appcontext.Placement, error)
	DesiredPlacements(ctx context.Context, id appcontext.HeadID, n int64) ([]appcontext.Placement, error)
	// GetBundle returns a bundle, or NotFound.
	GetBundle(ctx context.Context, d appcontext.Digest) (appcontext.Bundle, error)
	// GetBlob returns content, or NotFound.
	GetBlob(ctx context.Context, d appcontext.Digest) ([]byte, error)
}

// Reader answers queries. It is safe for use by many goroutines.
type Reader struct {
	contexts  ContextReader
	mirror    *mirror.Mirror
	options   Options
	streams   *web.Streams
	revisions *revisionCache
	counted   *countedCache
	histories *historyCache
	compared  *comparedCache
}

// New returns a reader of a store and its mirror.
func New(contexts ContextReader, m *mirror.Mirror, o Options) *Reader {
	return &Reader{contexts: contexts, mirror: m, options: o, streams: web.NewStreams(o.Streams), revisions: newRevisionCache(), counted: newCountedCache(), histories: newHistoryCache(), compared: newComparedCache()}
}

// Subject is the document that a query is about.
type Subject struct {
	Doc      store.Doc
	Identity v2.StatusSubject
	Apps     func(ctx context.Context) ([]string, error) // nil: not known. Names of the apps that the documents have; called only for filters of apps

	// Places returns the clusters on which the documents place each app now; nil: not known.
	Places func(ctx context.Context) (*placement.Places, error)
}

// checkApps refuses a filter of apps that exist neither in the documents nor in the revision.
func (of Subject) checkApps(ctx context.Context, q Query, rev appcontext.Revision) error {
	if len(q.Apps) == 0 || of.Apps == nil && rev.Number == 0 {
		return nil
	}
	var known []string
	if of.Apps != nil {
		var err error
		if known, err = of.Apps(ctx); err != nil {
			return err
		}
	}
	for _, a := range rev.Apps {
		known = append(known, a.Name)
	}
	for name := range q.Apps {
		if !slices.Contains(known, name) {
			return errs.New(errs.Invalid, fmt.Sprintf("Invalid app query: the deployment has no app %q", name))
		}
	}
	return nil
}

// Group answers a query for a deployment intent group. A group that was never instantiated,
// or whose deployment migrated, has an identity and a history only. Invalid if the app or
// instance does not exist, NotFound if nothing is kept of the instance.
func (r *Reader) Group(ctx context.Context, of Subject, q Query) (Answer, error) {
	out, snap, acts, err := r.begin(ctx, of, q)
	if err != nil {
		return out, err
	}
	rev := int64(0)
	if snap.Head != nil {
		if rev, err = revisionOf(*snap.Head, acts, q.Instance); err != nil {
			return out, err
		}
	}
	if snap.Head == nil || snap.Head.LastRev == 0 || !snap.Head.Owns() {
		if err := of.checkApps(ctx, q, appcontext.Revision{}); err != nil {
			return out, err
		}
		if snap.Head != nil && !snap.Head.Owns() {
			out.status.MovedTo, err = r.subjectOf(ctx, snap.Head.MovedTo)
		}
		return out, err
	}
	s, err := r.snapshotAt(ctx, snap, rev, q.Output == Summary && len(q.Clusters) == 0)
	if err == nil {
		err = of.checkApps(ctx, q, s.Rev)
	}
	if err != nil {
		return out, err
	}
	v := statusView{
		Snapshot: s, Query: q, reader: r, blocks: map[objectClass]*classStatus{},
		lastAction: acts[len(acts)-1].Time,
	}
	if v.details, err = r.detailsFor(ctx, q, s); err != nil {
		return out, err
	}
	if err := v.write(&out); err != nil || s.past || s.Head.Op != nil || s.Head.Gone || s.Head.Rev == 0 || of.Places == nil {
		return out, err
	}
	out.status.Outdated, err = r.outdated(ctx, of, v.Snapshot, snap.At)
	return out, err
}

// Standing is how far a deployment is.
type Standing struct {
	Head     appcontext.Head
	Deployed string // deployedStatus
	Ready    string // readyStatus
}

// Standing returns how far the deployment of a head is; zero if there is no such head.
func (r *Reader) Standing(ctx context.Context, id appcontext.HeadID) (Standing, error) {
	s, err := r.Snapshot(ctx, id)
	if err != nil || s.Head.UID == "" {
		return Standing{}, err
	}
	var out Answer
	v := statusView{Snapshot: s, Query: Query{Ready: true, Output: Summary}, reader: r, blocks: map[objectClass]*classStatus{}}
	err = v.write(&out)
	return Standing{Head: s.Head, Deployed: s.Deployed(), Ready: out.status.ReadyStatus}, err
}

// begin reads the head and the history, and returns an answer with these.
func (r *Reader) begin(ctx context.Context, of Subject, q Query) (Answer, mirror.Snapshot, []appcontext.HistoryEntry, error) {
	out := Answer{list: q.List, topics: topicsOf(of.Doc)}
	snap, err := r.mirror.Snapshot(ctx, appcontext.HeadID(of.Doc.UID))
	if err != nil {
		return out, snap, nil, err
	}
	head, acts, err := r.history(ctx, of.Doc, snap.Head)
	if err != nil {
		return out, snap, nil, err
	}
	out.topics.Deployments = []v2.DeploymentID{head.Deployment()}
	out.status = v2.Status{StatusSubject: of.Identity, States: lifecycle.States(head, acts)}
	if snap.Head == nil && q.Instance != "" {
		_, err = revisionOf(head, acts, q.Instance)
	}
	return out, snap, acts, err
}

// revisionOf returns the revision that a query is about: the desired one, unless the query
// names an older instance.
func revisionOf(head appcontext.Head, acts []appcontext.HistoryEntry, instance string) (int64, error) {
	last := ""
	number := map[string]int64{}
	for _, a := range acts {
		last = cmp.Or(a.Instance, last)
		number[a.Instance] = max(number[a.Instance], a.Revision)
	}
	switch n, known := number[instance]; {
	case instance == "", instance == last:
		return head.Rev, nil
	case known && n > 0:
		return n, nil
	}
	return 0, errs.New(errs.Invalid, "Invalid query instance: the history has none with this id")
}

// subjectOf returns the key of a head's document, or the head's id if the head is gone.
func (r *Reader) subjectOf(ctx context.Context, id appcontext.HeadID) (string, error) {
	head, err := r.contexts.Head(ctx, id)
	if errs.Is(err, errs.NotFound) {
		return string(id), nil
	}
	return cmp.Or(head.Document, string(id)), err
}

func (r *Reader) detailsFor(ctx context.Context, q Query, s Snapshot) (map[appcontext.Digest]json.RawMessage, error) {
	if q.Output != Detail {
		return nil, nil
	}
	return r.readDetails(ctx, s.bundles)
}

// Left returns all pairs of a deployment, by the id of its head, in order.
func (r *Reader) Left(ctx context.Context, id appcontext.HeadID) ([]appcontext.Pair, error) {
	snap, err := r.mirror.Snapshot(ctx, id)
	return remainingPairs(snap, &revisionContent{}), err
}

// Cloud answers a query for a logical cloud with the given member clusters. A cloud of level
// 0 has no objects on clusters, so it is Ready when it is instantiated.
func (r *Reader) Cloud(ctx context.Context, of Subject, q Query, clusters []v2.ClusterKey) (Answer, error) {
	out, snap, acts, err := r.begin(ctx, of, q)
	if err != nil || snap.Head == nil {
		return out, err
	}
	if _, err := revisionOf(*snap.Head, acts, q.Instance); err != nil {
		return out, err
	}
	out.status.DeployedStatus = cloudStatuses[snap.Head.State]
	if snap.Head.State != appcontext.Instantiated {
		return out, nil
	}
	if q.Ready {
		out.status.ReadyStatus = v2.Ready
	}
	if q.Output != Summary {
		out.clusters = r.members(q, clusters)
	}
	return out, nil
}

// cloudStatuses maps the state of a level 0 cloud to its deployedStatus: without objects on
// clusters, each action is done at once.
var cloudStatuses = map[appcontext.State]string{
	appcontext.Instantiated: v2.StatusInstantiated, appcontext.InstantiateStopped: v2.StatusInstantiateFailed,
	appcontext.Terminated: v2.StatusTerminated, appcontext.TerminateStopped: v2.StatusTerminateFailed,
}

// members returns the clusters that pass the filters. Because a cloud has no resources, no
// cluster passes a filter of resources.
func (r *Reader) members(q Query, clusters []v2.ClusterKey) (out []clusterPart) {
	for _, c := range clusters {
		if admits(q.Clusters, c) && len(q.Resources) == 0 {
			out = append(out, clusterPart{status: v2.ClusterStatus{Provider: c.Provider(), Cluster: c.Cluster(), Connectivity: r.connectivity(c)}})
		}
	}
	slices.SortFunc(out, func(a, b clusterPart) int {
		return cmp.Compare(a.status.Key(), b.status.Key())
	})
	return out
}

// connectivity returns the connection status of a cluster over all deployments: Available if
// one of them reaches it, Retrying if one of them tries to.
func (r *Reader) connectivity(cluster v2.ClusterKey) string {
	out := v2.Unknown
	for _, e := range r.mirror.Cluster(cluster) {
		switch connectivity(e.State.Common(), r.readingOf(e.Report, e.Heard(), r.options.Now())) {
		case "Available":
			return "Available"
		case "Retrying":
			out = "Retrying"
		}
	}
	return out
}
