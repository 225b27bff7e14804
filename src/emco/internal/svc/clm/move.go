package clm

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// maxMove is the size limit of a move request's body, in bytes.
const maxMove = 4 << 10

// A cluster moves to another place in its repository, or to another sync type. Its
// registration names the new place at once, and also the old one. rsync writes what is
// deployed to the new place and then removes it from the old one. Because both are in one
// document, no crash loses a move.

// Relocations stores the progress of moves.
type Relocations interface {
	Relocation(ctx context.Context, cluster v2.ClusterKey) (gitstate.Relocation, error)
	AskRelocation(ctx context.Context, ask gitstate.Relocation) error
	TurnBack(ctx context.Context, cluster v2.ClusterKey, registration string, number int64) error
	LeaveRelocation(ctx context.Context, cluster v2.ClusterKey, registration string, left gitstate.LeftPlace) error
	ForgetRelocation(ctx context.Context, cluster v2.ClusterKey) error
}

// moveHandler serves moves of clusters.
type moveHandler struct{ *slotAllocator }

// movingCluster is the cluster of a move request.
type movingCluster struct {
	at      resource.Place
	doc     store.Doc
	cluster v2.Cluster
}

func (m movingCluster) key() v2.ClusterKey {
	key, _ := v2.ClusterOf(string(m.doc.Key))
	return key
}

// find reads the cluster that the URL names.
func (n moveHandler) find(r *http.Request) (m movingCluster, err error) {
	vars, err := web.Vars(r)
	if err != nil {
		return m, err
	}
	key := v2.NewClusterKey(vars["clusterProvider"], vars["cluster"])
	parent := store.Key(v2.ProviderStoreKey(key.Provider()))
	m.at = resource.Place{Key: store.Key(key.StoreKey()), Collection: parent + "/clusters", Parent: parent, Vars: vars}
	if m.doc, err = n.resources.DB.Get(r.Context(), m.at.Key); err != nil {
		return m, err
	}
	m.cluster, err = store.Decode[v2.Cluster](m.doc)
	return m, err
}

// move changes a cluster's place to the one in the body, or to the one that a new cluster
// would get. It answers 202 if something is deployed on the cluster and must move too,
// otherwise 200. A dry run answers the same, and changes nothing.
func (n moveHandler) move(w http.ResponseWriter, r *http.Request, dry bool) error {
	if dry {
		n = n.trial()
	}
	m, err := n.find(r)
	if err != nil {
		return err
	}
	ask, err := readMoveRequest(w, r)
	if err != nil {
		return err
	}
	doc, along, err := n.moveCluster(r.Context(), m, ask)
	if err != nil {
		return err
	}
	if along {
		return web.Raw(w, http.StatusAccepted, doc.Body)
	}
	return web.Raw(w, http.StatusOK, doc.Body)
}

// trial returns a handler whose writes are checked and come to nothing. It counts the clusters
// of branches for itself.
func (n moveHandler) trial() moveHandler {
	resources := n.resources
	resources.DB, resources.Moves = resources.DB.Trial(), trialMoves{resources.Moves}
	return moveHandler{newSlotAllocator(resources)}
}

// trialMoves reads the progress of moves, and stores nothing.
type trialMoves struct{ Relocations }

func (trialMoves) AskRelocation(context.Context, gitstate.Relocation) error { return nil }

func (m trialMoves) TurnBack(ctx context.Context, cluster v2.ClusterKey, registration string, number int64) error {
	rec, err := m.Relocation(ctx, cluster)
	if err != nil && !errs.Is(err, errs.NotFound) {
		return err
	}
	return rec.CheckTurnBack(registration, number)
}

func (trialMoves) LeaveRelocation(context.Context, v2.ClusterKey, string, gitstate.LeftPlace) error {
	return nil
}

func (trialMoves) ForgetRelocation(context.Context, v2.ClusterKey) error { return nil }

// readMoveRequest reads the body, which may be empty.
func readMoveRequest(w http.ResponseWriter, r *http.Request) (ask v2.ClusterMoveRequest, err error) {
	body, err := web.Body(w, r, maxMove)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return ask, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&ask); err != nil {
		return ask, errs.New(errs.Malformed, `the body is not as {"gitOpsShard": "s001"} or {"gitOpsType": "argocd"}: `+err.Error())
	}
	return ask, nil
}

// moveCluster stores a cluster with another place. It reports whether something is deployed
// on it and must move too.
func (n moveHandler) moveCluster(ctx context.Context, m movingCluster, ask v2.ClusterMoveRequest) (doc store.Doc, along bool, err error) {
	if m.cluster.Direct() {
		return m.doc, false, errs.New(errs.Invalid, "cluster "+m.cluster.Metadata.Name+" is reached directly and is on no branch")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	was := m.cluster.Spec.GitOps
	if ask == (v2.ClusterMoveRequest{Finish: true}) {
		return n.continueMove(ctx, m, true)
	}
	if ask.Abort {
		return n.abortLocked(ctx, m, ask)
	}
	next, err := n.nextSlotLocked(ctx, m, ask)
	if err != nil {
		return m.doc, false, err
	}
	if next.Location() == was.Location() {
		return n.continueMove(ctx, m, ask.Finish)
	}
	if err := n.checkArrived(ctx, m); err != nil {
		return m.doc, false, err
	}
	if along, err = n.hasDeployments(ctx, m.key()); err != nil {
		return m.doc, false, err
	}
	if along {
		next.Moved = v2.GitOpsMove{Number: was.Moved.Number + 1, From: was.Location()}
	}
	if doc, err = n.writeLocked(ctx, m, next); err != nil || !along {
		return doc, along, err
	}
	m.cluster.Spec.GitOps = next
	return doc, true, n.requestMove(ctx, m, ask.Finish)
}

// nextSlotLocked returns the new place.
func (n moveHandler) nextSlotLocked(ctx context.Context, m movingCluster, ask v2.ClusterMoveRequest) (v2.GitOps, error) {
	c := m.cluster
	g := &c.Spec.GitOps
	stays := ask.Type != "" && ask.RefMode == "" && ask.Shard == ""
	if ask.Type != "" {
		g.Type = ask.Type
	}
	if canonical, ok := v2.GitOpsType(g.Type); ok {
		g.Type = canonical
	}
	if !stays {
		g.RefMode, g.Shard, g.FanOut = ask.RefMode, ask.Shard, false
	}
	if err := c.Validate(); err != nil {
		return *g, err
	}
	s, err := n.resources.readSettings(ctx, m.at, *g, nil)
	if err != nil {
		return *g, err
	}
	if s.Published() {
		return *g, errs.New(errs.Invalid, "a cluster of type "+g.Type+" is on no branch, and clusters cannot move from or to it; delete and register the cluster")
	}
	if was, err := n.resources.readSettings(ctx, m.at, m.cluster.Spec.GitOps, nil); err == nil && was.Published() {
		return *g, errs.New(errs.Invalid, "a cluster of type "+was.Kind+" is on no branch, and clusters cannot move from or to it; delete and register the cluster")
	}
	if stays {
		return *g, nil
	}
	n.counted = time.Time{} // the counts may include clusters that are gone
	if err := n.countLocked(ctx); err != nil {
		return *g, err
	}
	return *g, n.allocateLocked(m.key(), s, g)
}

// writeLocked stores a cluster with its new place.
func (n moveHandler) writeLocked(ctx context.Context, m movingCluster, next v2.GitOps) (store.Doc, error) {
	c := m.cluster
	c.Spec.GitOps = next
	body, err := json.Marshal(c)
	if err != nil {
		return m.doc, err
	}
	n.counted = time.Time{} // the counts have it at its old place
	return n.resources.DB.Replace(ctx, store.Write{Key: m.at.Key, Parent: m.at.Parent, UID: m.doc.UID, Refs: store.Needs(syncObjectsOf(m.at, c)...), Body: body}, m.doc.Rev)
}

// abortLocked turns a move back: the next move leads to the old place, which still holds
// everything. It comes too late when the old place is cleared, which happens at once if the
// cluster reads the same branch as before.
func (n moveHandler) abortLocked(ctx context.Context, m movingCluster, ask v2.ClusterMoveRequest) (store.Doc, bool, error) {
	if ask != (v2.ClusterMoveRequest{Abort: true}) {
		return m.doc, false, errs.New(errs.Invalid, "abort stands alone: the cluster goes back to its old place")
	}
	done, err := n.arrived(ctx, m)
	if err == nil && done {
		err = errs.New(errs.Conflict, "cluster "+m.cluster.Metadata.Name+" is not being moved")
	}
	if err != nil {
		return m.doc, false, err
	}
	now := m.cluster.Spec.GitOps
	back := now.MovedTo(now.Moved.From)
	if same, err := n.sameSource(ctx, m, back); err != nil || same {
		if err == nil {
			err = errs.New(errs.Conflict, "the cluster reads the same branch as before, so its old place is cleared at once: the move can no longer be aborted; move the cluster back when it is done")
		}
		return m.doc, false, err
	}
	if err := n.resources.Moves.TurnBack(ctx, m.key(), m.doc.UID, now.Moved.Number); err != nil {
		return m.doc, false, err
	}
	back.Moved = v2.GitOpsMove{Number: now.Moved.Number + 1, From: now.Location()}
	doc, err := n.writeLocked(ctx, m, back)
	return doc, err == nil, err
}

// sameSource reports whether a cluster reads the same branch and layout at two places.
func (n moveHandler) sameSource(ctx context.Context, m movingCluster, other v2.GitOps) (bool, error) {
	now := m.cluster.Spec.GitOps
	a, err := n.resources.readSettings(ctx, m.at, now, nil)
	if err != nil {
		return false, err
	}
	b, err := n.resources.readSettings(ctx, m.at, other, nil)
	a, b = a.At(string(m.key()), route.SlotOf(now)), b.At(string(m.key()), route.SlotOf(other))
	return a.ReadBranch() == b.ReadBranch() && a.FanOut == b.FanOut, err
}

// requestMove asks rsync to move a cluster, or to finish a move.
func (n moveHandler) requestMove(ctx context.Context, m movingCluster, finish bool) error {
	return n.resources.Moves.AskRelocation(ctx, gitstate.Relocation{
		Cluster: m.key(), Registration: m.doc.UID, Number: m.cluster.Spec.GitOps.Moved.Number, Finish: finish,
	})
}

// continueMove handles a request whose place is the current one. If a move there is not
// done, rsync is asked again.
func (n moveHandler) continueMove(ctx context.Context, m movingCluster, finish bool) (store.Doc, bool, error) {
	done, err := n.arrived(ctx, m)
	if err != nil || done {
		return m.doc, false, err
	}
	return m.doc, true, n.requestMove(ctx, m, finish)
}

// checkArrived refuses to move a cluster during another move.
func (n moveHandler) checkArrived(ctx context.Context, m movingCluster) error {
	done, err := n.arrived(ctx, m)
	if err == nil && !done {
		err = errs.New(errs.Conflict, "cluster "+m.cluster.Metadata.Name+" is being moved; GET …/move shows its progress")
	}
	return err
}

// arrived reports whether a cluster's last move is done.
func (n moveHandler) arrived(ctx context.Context, m movingCluster) (bool, error) {
	moved := m.cluster.Spec.GitOps.Moved
	if moved.Number == 0 {
		return true, nil
	}
	r, err := n.resources.Moves.Relocation(ctx, m.key())
	if err != nil && !errs.Is(err, errs.NotFound) {
		return false, err
	}
	return r.IsAtLeast(m.doc.UID, moved.Number) && r.Stage == gitstate.MoveDone, nil
}

// hasDeployments reports whether a deployment desires something on a cluster or has
// something there.
func (n moveHandler) hasDeployments(ctx context.Context, cluster v2.ClusterKey) (bool, error) {
	for _, busy := range []func(context.Context, v2.ClusterKey) (bool, error){n.resources.Delivered, n.resources.Wanted} {
		if is, err := busy(ctx, cluster); err != nil || is {
			return is, err
		}
	}
	return false, nil
}

// progress answers with the state of a cluster's last move.
func (n moveHandler) progress(w http.ResponseWriter, r *http.Request) error {
	m, err := n.find(r)
	if err != nil {
		return err
	}
	g := m.cluster.Spec.GitOps
	if g.Moved.Number == 0 {
		return errs.New(errs.NotFound, "cluster "+m.cluster.Metadata.Name+" was never moved with something deployed on it")
	}
	rec, err := n.resources.Moves.Relocation(r.Context(), m.key())
	if err != nil && !errs.Is(err, errs.NotFound) {
		return err
	}
	if !rec.IsAtLeast(m.doc.UID, g.Moved.Number) {
		rec = gitstate.Relocation{Stage: gitstate.MoveAsked}
	}
	return web.JSON(w, http.StatusOK, moveStatus(g, rec))
}

// moveStatus returns a move as users see it.
func moveStatus(g v2.GitOps, r gitstate.Relocation) v2.ClusterMove {
	stages := []gitstate.MoveStage{gitstate.MoveAsked, gitstate.MoveWritten, gitstate.MoveTaken, gitstate.MoveDone}
	types := []string{"Written", "TakenOver", "Cleared"}
	out := v2.ClusterMove{
		Number: g.Moved.Number, From: g.Moved.From, To: g.Location(), Done: r.Stage == gitstate.MoveDone,
		Written: r.Written, Cleared: r.Cleared, Error: r.Error,
	}
	reached := 0
	for i, stage := range stages {
		if r.Stage == stage {
			reached = i
		}
	}
	for i, t := range types {
		c := v2.Condition{Type: t, Status: "True", Reason: "Done"}
		switch {
		case i == reached && r.Error != "":
			c.Status, c.Reason, c.Message = "False", "Retrying", r.Error
		case i == reached:
			c.Status, c.Reason = "False", "InProgress"
		case i > reached:
			c.Status, c.Reason = "False", "Waiting"
		}
		out.Conditions = append(out.Conditions, c)
	}
	return out
}
