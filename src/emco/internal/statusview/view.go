package statusview

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// statusView makes the answer to one query from a snapshot.
type statusView struct {
	Snapshot
	Query
	reader     *Reader
	details    map[appcontext.Digest]json.RawMessage // by digest of the object; only if the query asks for them
	blocks     map[objectClass]*classStatus
	lastAction time.Time // time of the last action
	expires    time.Time
	stale      bool // some cluster's report is stale
}

// objectClass identifies clusters whose objects have the same statuses.
type objectClass struct {
	bundle  appcontext.Digest
	state   string // rsync's status; empty in the clusters' view
	sum     uint64 // of the report
	cut     bool   // the report is truncated
	heard   bool
	watched bool  // the report is of a watch
	stale   int64 // time of the report if it is stale
}

// classStatus is what the clusters of a class share.
type classStatus struct {
	objectBlock
	of      []mirror.Status // the report that it was made from
	verdict healthVerdict
}

// write fills in the answer. Counts cover everything that passes the filters, regardless of
// the output.
func (v *statusView) write(out *Answer) error {
	counts, failed := map[string]int{}, false
	for _, a := range v.apps {
		v.readReports(a)
		if !admits(v.Query.Apps, a.Name) {
			continue
		}
		failed = failed || a.Failure != nil
		part := appPart{status: v2.AppStatus{Name: a.Name, Failure: failureOf(a.App), Findings: slices.Concat(a.Findings, a.Duplicates)}}
		part.clusters = v.clusters(a, counts)
		if v.Output != Summary && (len(part.clusters) > 0 || part.status.Failure != nil) {
			out.apps = append(out.apps, part)
		}
	}
	v.totals(&out.status, counts, failed)
	if !v.past {
		out.status.Conditions = v.conditions(out.apps)
		out.status.Failure, out.status.Stopped = v.Head.Failure, v.Head.Stopped
		if v.Head.Use != (appcontext.Use{}) && !v.Head.Gone {
			out.status.Use = &v2.Use{Clusters: v.Head.Use.Clusters, Objects: v.Head.Use.Objects, Bytes: v.Head.Use.Bytes}
		}
		out.status.Hooks = v.hooks()
	}
	if !v.past && v.Output != Summary {
		out.status.Leaving = v.leaving()
	}
	out.Expires, out.stale = v.expires, v.stale
	return nil
}

// totals sets the status of the deployment, in the members that the query asks for.
func (v *statusView) totals(out *v2.Status, counts map[string]int, failed bool) {
	if v.Legacy {
		out.Status = v.Deployed()
	} else {
		out.DeployedStatus = v.Deployed()
	}
	switch {
	case v.Ready && v.Legacy:
		out.ClusterCounts = counts
	case v.Ready:
		out.ReadyCounts = counts
	case v.Legacy:
		out.RsyncCounts = counts
	default:
		out.DeployedCounts = counts
	}
	if v.Ready {
		out.ReadyStatus = v.word(objectState{state: overall(counts, failed && !v.past)})
	}
}

// word returns the word of readyStatus for a state. Upstream has none for what is not known.
func (v *statusView) word(o objectState) string {
	switch {
	case !v.Ready || !v.reader.options.UpstreamWords || o.state != v2.Unknown:
		return o.state
	case o.absent:
		return v2.NotPresent
	}
	return v2.NotReady
}

// overall returns Ready only if everything is Ready, and Unknown if something is not known
// and nothing is NotReady, or if there is nothing. An app that could not be rendered or
// placed is NotReady.
func overall(counts map[string]int, failed bool) string {
	switch {
	case failed || counts[v2.NotReady]+counts[v2.NotPresent] > 0:
		return v2.NotReady
	case counts[v2.Unknown] > 0 || len(counts) == 0:
		return v2.Unknown
	}
	return v2.Ready
}

// readReports evaluates the reports of an app's clusters.
func (v *statusView) readReports(a appPlaces) {
	for i := range a.places {
		p := &a.places[i]
		v.stale = v.stale || p.reading.stale
		if at := v.reader.expires(p.reading); !at.IsZero() && (v.expires.IsZero() || at.Before(v.expires)) {
			v.expires = at
		}
		p.ready = v.readiness(p)
	}
}

// clusters counts the objects of an app's places that pass the filters, and returns these places. A
// summary has the counts alone.
func (v *statusView) clusters(a appPlaces, counts map[string]int) (out []clusterPart) {
	if v.Output != Summary {
		out = make([]clusterPart, 0, len(a.places))
	}
	for i := range a.places {
		p := &a.places[i]
		if !admits(v.Clusters, p.cluster) {
			continue
		}
		c := clusterPart{objects: v.objects(p)}
		if v.Ready && !v.past {
			c.extras = v.extras(p, counts)
		}
		if len(c.objects.list)+len(c.extras) == 0 && len(v.Resources) > 0 { // else the app rendered to nothing
			continue
		}
		for state, n := range c.objects.counts {
			counts[state] += n * p.n
		}
		if v.Output == Summary {
			continue
		}
		v.describe(&c.status, p)
		out = append(out, c)
	}
	return out
}

// objects returns the objects of a place.
func (v *statusView) objects(p *placeStatus) *objectBlock {
	switch {
	case !v.Ready && v.past:
		past := v.pastStates(*p)
		return v.block(p, func(i int, _ appcontext.Ref) objectState { return past[i] })
	case !v.Ready:
		if p.pair != nil && (p.pair.Outcome != nil || p.pair.Halted) {
			return v.block(p, p.outcomes())
		}
		c := objectClass{bundle: p.bundle, state: p.state}
		s := v.blocks[c]
		if s == nil {
			s = &classStatus{objectBlock: *v.block(p, func(int, appcontext.Ref) objectState { return objectState{state: p.state} })}
			v.blocks[c] = s
		}
		return &s.objectBlock
	}
	return &p.ready.objectBlock
}

// readiness returns the readiness of a place. Places of a class share it.
func (v *statusView) readiness(p *placeStatus) *classStatus {
	w := p.reading
	c := objectClass{bundle: p.bundle, heard: w.report != nil}
	var of []mirror.Status
	if c.heard {
		c.watched = w.report.Seq == 0
		c.sum, c.cut, of = w.report.Sum, w.report.Truncated > 0, w.report.Objects
	}
	if w.stale {
		c.stale = w.at.UnixNano()
	}
	if s := v.blocks[c]; s != nil && slices.Equal(s.of, of) {
		return s
	}
	reported := map[manifest.ObjectKey]appcontext.ResourceStatus{}
	if c.heard {
		reported = w.objectsByKey()
	}
	s := &classStatus{of: of}
	s.objectBlock = *v.block(p, func(_ int, ref appcontext.Ref) objectState { return w.readiness(reported, ref, v.past) })
	s.verdict = w.verdict(reported, objectsOf(v.bundles[p.bundle]))
	v.blocks[c] = s
	return s
}

// block returns the objects of a bundle that pass the filters.
func (v *statusView) block(p *placeStatus, state func(i int, ref appcontext.Ref) objectState) *objectBlock {
	out := &objectBlock{counts: map[string]int{}}
	for i, ref := range objectsOf(v.bundles[p.bundle]) {
		if !admits(v.Resources, ref.Name) {
			continue
		}
		o := state(i, ref)
		o.state = v.word(o)
		out.counts[o.state]++
		out.list = append(out.list, v.resource(ref, o))
	}
	return out
}

func (v *statusView) resource(ref appcontext.Ref, o objectState) v2.ResourceStatus {
	r := v2.ResourceStatus{
		GVK:  v2.GVK{Group: ref.Group, Version: ref.Version, Kind: ref.Kind},
		Name: ref.Name, Namespace: ref.Namespace, Reason: o.reason,
	}
	if v.details != nil {
		r.Detail = v.detail(ref, o)
	}
	v.setState(&r, o.state)
	return r
}

// setState sets the member that the query asks for.
func (v *statusView) setState(r *v2.ResourceStatus, state string) {
	switch {
	case v.Ready && v.Legacy:
		r.ClusterStatus = state
	case v.Ready:
		r.ReadyStatus = state
	case v.Legacy:
		r.RsyncStatus = state
	default:
		r.DeployedStatus = state
	}
}

// extras counts the app's objects that the cluster has in addition to the rendered ones, and returns them
// unless the query asks for a summary.
func (v *statusView) extras(p *placeStatus, counts map[string]int) (out []v2.ResourceStatus) {
	w := p.reading
	if w.report == nil {
		return nil
	}
	for _, h := range w.report.Extras {
		s := h.Value()
		o := w.aged(objectState{state: readyStatusOf(s.Status), reason: s.Reason})
		if !admits(v.Resources, s.Name) || o.state == v2.NotPresent {
			continue
		}
		o.state = v.word(o)
		counts[o.state] += p.n
		if v.Output == Summary {
			continue
		}
		r := v.resource(appcontext.Ref{ID: s.ID}, o)
		r.Extra = true
		out = append(out, r)
	}
	return out
}

// describe sets what concerns the place as a whole.
func (v *statusView) describe(c *v2.ClusterStatus, p *placeStatus) {
	w := p.reading
	c.Provider, c.Cluster = p.cluster.Provider(), p.cluster.Cluster()
	if link := connectivity(p.pair, w); v.Legacy {
		c.ReadyStatus = link
	} else {
		c.Connectivity = link
	}
	if w.report != nil && !w.unanswered() {
		c.LastReport, c.Stale, c.Reconciled = &p.reading.at, w.stale, w.report.Commit
	}
	if p.pair == nil || v.past {
		return
	}
	c.Phase, c.Since = string(p.pair.Phase), &p.pair.At
	if v.outdated(*p) {
		c.Phase, c.Since = string(appcontext.Pending), &v.Rev.At
		return
	}
	c.Error, c.Findings, c.Blocked = p.pair.Error, slices.Concat(p.pair.Findings, p.pair.Overlaps), cmp.Or(p.pair.Blocked, p.pair.Waiting)
	if at := nextAttempt(*p.pair); !at.IsZero() {
		c.NextAttempt = &at
	}
	c.Attempts = p.pair.Attempt
	if e := p.pair.Edit; e != nil {
		edit := v2.ExternalEdit(*e)
		c.ExternalEdit = &edit
	}
	switch {
	case p.state == string(appcontext.Applied):
		c.Commit, c.Revision = p.pair.Commit, v.Head.Rev // an earlier revision with the same content may have been applied
	case p.pair.Change != "":
		c.Step = p.pair.Step + 1
	}
}

// nextAttempt returns when rsync tries a failed pair again; zero if it waits for something
// else.
func nextAttempt(p appcontext.Pair) time.Time {
	if p.Blocked != "" || p.Sent {
		return time.Time{}
	}
	return p.NextRetry
}

// connectivity returns upstream's status of the connection to a cluster.
func connectivity(p *appcontext.Pair, w clusterReading) string {
	switch {
	case p != nil && p.Phase == appcontext.Retrying:
		return "Retrying"
	case w.report != nil && w.lost():
		return v2.Unknown
	case w.report != nil, p != nil && p.Phase == appcontext.Applied && p.Commit == "":
		return "Available"
	}
	return v2.Unknown
}

func failureOf(a appcontext.App) *v2.AppFailure {
	if a.Failure == nil {
		return nil
	}
	return &v2.AppFailure{Stage: a.Failure.Stage, File: a.Failure.File, Reason: a.Failure.Reason}
}

// leaving returns the pairs that the desired revision removes, if they pass the filters.
func (v *statusView) leaving() (out []v2.Leaving) {
	if v.Head.Gone || v.Rev.Number == 0 { // nothing is desired, or a migration handed it over and no revision replaces it yet
		return nil
	}
	for _, p := range v.left {
		if !admits(v.Query.Apps, p.Key.App) || !admits(v.Clusters, p.Key.Cluster) {
			continue
		}
		out = append(out, v2.Leaving{
			App: p.Key.App, Provider: p.Key.Cluster.Provider(), Cluster: p.Key.Cluster.Cluster(),
			Phase: string(p.Phase), Error: p.Error, Blocked: cmp.Or(p.Blocked, p.Waiting), Since: p.At,
			Attempts: p.Attempt, NextAttempt: nextAttempt(p),
		})
	}
	return out
}

// readDetails reads every object of the bundles. It hides the values of Secrets.
func (r *Reader) readDetails(ctx context.Context, bundles map[appcontext.Digest]appcontext.Bundle) (map[appcontext.Digest]json.RawMessage, error) {
	out := map[appcontext.Digest]json.RawMessage{}
	for _, b := range bundles {
		for _, ref := range objectsOf(b) {
			content, err := r.contexts.GetBlob(ctx, ref.Digest)
			if err == nil {
				out[ref.Digest], err = manifest.Masked(manifest.Object{ID: ref.ID, Content: content})
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// detail returns the rendered object. In the clusters' view it does so only if the cluster
// reports this content. Otherwise it returns the name of an object that exists, and nothing
// for one that does not.
func (v *statusView) detail(ref appcontext.Ref, o objectState) json.RawMessage {
	if !v.Ready {
		return v.details[ref.Digest]
	}
	switch o.state {
	case v2.NotPresent, v2.Unknown:
		return nil
	}
	if content := v.details[ref.Digest]; content != nil && o.held {
		return content
	}
	return outline(ref.ID)
}

// outline returns an object with nothing but its name.
func outline(id manifest.ID) json.RawMessage {
	type metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace,omitempty"`
	}
	text, err := json.Marshal(struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   metadata `json:"metadata"`
	}{id.APIVersion(), id.Kind, metadata{id.Name, id.Namespace}})
	if err != nil {
		return nil
	}
	return text
}
