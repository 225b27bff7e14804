package pairs

import (
	"cmp"
	"slices"
	"sync"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

// memory is what is remembered of a shard's pairs. Exported methods read, under
// mu. Unexported ones change it: their callers hold writing.
//
// mu guards all fields. The Store changes them only while it holds both writing and mu, so
// whoever holds writing may read the fields without mu. Nothing waits for etcd with mu held:
// readers never wait for a write.
type memory struct {
	mu          sync.Mutex
	index       index
	deployments map[v2.DeploymentID]deployment
	unconfirmed unconfirmedWrites
	handovers   int64 // how often pairs were handed over or taken over
}

func newMemory() *memory {
	return &memory{index: newIndex(), deployments: map[v2.DeploymentID]deployment{}, unconfirmed: newUnconfirmedWrites()}
}

// put remembers a pair with its state, and returns what was remembered of it, if anything was.
func (m *memory) put(p appcontext.Pair, state *appcontext.PairState) (old appcontext.Pair, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unconfirmed.confirm(p.Key)
	return m.index.put(p.Key, p.Registration, state)
}

// remove forgets a pair, and returns what was remembered of it.
func (m *memory) remove(k appcontext.PairKey) (old appcontext.Pair) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, _ = m.index.pair(k)
	m.index.remove(k)
	m.unconfirmed.confirm(k)
	if d, known := m.deployments[k.Deployment]; known && !m.index.has(k.Deployment) {
		d.subject, d.namespace, d.cloud = "", "", appcontext.Cloud{}
		m.setDeploymentLocked(k.Deployment, d)
	}
	return old
}

// setReport remembers the last report on a pair, if the pair is known.
func (m *memory) setReport(k appcontext.PairKey, r *lastReport) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.index.at(k); p != nil {
		p.report = r
	}
}

// addUnconfirmed notes a failed write of pairs, and of removals.
func (m *memory) addUnconfirmed(put []appcontext.Pair, remove []appcontext.PairKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unconfirmed.add(&m.index, put, remove)
}

// addHandover counts a handover, so that what was worked out before is refused.
func (m *memory) addHandover() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handovers++
}

// deployment is what is known of a deployment besides its pairs.
type deployment struct {
	head      appcontext.HeadID // "" if it is not known
	trace     string            // span of the action that asked for what is desired; "" for none
	subject   string            // key of its document
	namespace string            // of its logical cloud
	cloud     appcontext.Cloud
	wanted    bool   // something of it is desired
	stopped   bool   // nothing more is done for it
	order     *order // nil if its pairs do not wait for each other; replaced as a whole, but for described
}

// updateDeployment changes what is known of a deployment. The caller holds writing, so the
// map may be read before mu is locked.
func (m *memory) updateDeployment(uid v2.DeploymentID, how func(*deployment)) {
	d := m.deployments[uid]
	how(&d)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setDeploymentLocked(uid, d)
}

func (m *memory) setDeploymentLocked(uid v2.DeploymentID, d deployment) {
	if d == (deployment{}) {
		delete(m.deployments, uid)
	} else {
		m.deployments[uid] = d
	}
}

// Of returns the pairs of a target, in order of app.
func (m *memory) Of(t pair.Target) []appcontext.Pair {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index.of(t)
}

// AppendOf adds the pairs of a target to a list, in order of app.
func (m *memory) AppendOf(to []appcontext.Pair, t pair.Target) []appcontext.Pair {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, p := range m.index.each(t) {
		to = append(to, p.state.Pair(k, p.registration))
	}
	return to
}

// Has reports whether a target has pairs.
func (m *memory) Has(t pair.Target) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index.target(t) != nil
}

// HasDeliverable reports whether a pair of a target has a step to deliver.
func (m *memory) HasDeliverable(t pair.Target) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index.count(t, func(_ appcontext.PairKey, p *indexed) bool { return deliverable(p.state.Common()) }) > 0
}

// Urgent reports whether a pair of a target is due to be removed or rolled back.
func (m *memory) Urgent(t pair.Target) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index.count(t, func(_ appcontext.PairKey, p *indexed) bool { return pair.Urgent(*p.state.Common()) }) > 0
}

func deliverable(common *appcontext.Pair) bool { return pair.Deliverable(*common) }

// Deliverable returns the pairs of a target that have a step to deliver, in order of app.
func (m *memory) Deliverable(t pair.Target) []appcontext.Pair {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index.those(deliverable, t)
}

// CheckRegistration refuses to deliver what was meant for an earlier cluster of the same name.
func (m *memory) CheckRegistration(t pair.Target, registration string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.index.target(t)
	if of == nil {
		return nil
	}
	for _, p := range of.pairs {
		if err := pair.CheckRegistration(t.Cluster, p.state.Common(), p.registration, registration); err != nil {
			return err
		}
	}
	return nil
}

// TargetsOf returns the targets of a deployment, in order.
func (m *memory) TargetsOf(deployment v2.DeploymentID) []pair.Target {
	m.mu.Lock()
	defer m.mu.Unlock()
	return sorted(m.index.targetsOf(deployment))
}

// On returns the targets on a cluster, in order.
func (m *memory) On(cluster v2.ClusterKey) []pair.Target {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []pair.Target
	for _, t := range m.index.byCluster[cluster] {
		out = append(out, t.Target)
	}
	return sorted(out)
}

// All returns every target that has pairs, in order.
func (m *memory) All() []pair.Target {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []pair.Target
	for t := range m.index.all() {
		out = append(out, t.Target)
	}
	return sorted(out)
}

func sorted(targets []pair.Target) []pair.Target {
	slices.SortFunc(targets, pair.CompareTargets)
	return targets
}

// Clusters returns the clusters on which a deployment has pairs, or may have.
func (m *memory) Clusters(deployment v2.DeploymentID) map[v2.ClusterKey]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[v2.ClusterKey]bool{}
	for c := range m.index.byDeployment[deployment] {
		out[c] = true
	}
	for _, p := range m.unconfirmed.newPairs(deployment) {
		out[p.Key.Cluster] = true
	}
	return out
}

// Split parts clusters into those on which a deployment has pairs, and the others.
func (m *memory) Split(deployment v2.DeploymentID, clusters map[v2.ClusterKey]bool) (own map[v2.ClusterKey]bool, others []v2.ClusterKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own = map[v2.ClusterKey]bool{}
	for c := range clusters {
		if m.index.target(pair.Target{Cluster: c, Deployment: deployment}) != nil {
			own[c] = true
		} else {
			others = append(others, c)
		}
	}
	return own, others
}

// Unsettled returns the clusters on which a deployment does not hold what is desired.
func (m *memory) Unsettled(deployment v2.DeploymentID) map[v2.ClusterKey]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[v2.ClusterKey]bool{}
	for c := range m.index.unsettled[deployment] {
		out[c] = true
	}
	return out
}

// Plain reports whether a deployment's next revision can be compared with the last one
// alone: its pairs do not wait for each other, it is not stopped, and all its writes are
// confirmed.
func (m *memory) Plain(deployment v2.DeploymentID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.deployments[deployment]
	return d.order == nil && !d.stopped && !m.unconfirmed.any(deployment)
}

// Handovers counts how often pairs were handed over or taken over. What was worked out
// from the Store's pairs may be written only while that number stays the same.
func (m *memory) Handovers() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.handovers
}

// Document returns the key of a deployment's document, or the deployment's id if that is
// not known.
func (m *memory) Document(deployment v2.DeploymentID) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return cmp.Or(m.deployments[deployment].subject, string(deployment))
}

// Head returns the id of the head that a deployment belongs to, "" if that is not known,
// and whether anything of the deployment is desired.
func (m *memory) Head(deployment v2.DeploymentID) (id appcontext.HeadID, wanted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.deployments[deployment]
	return d.head, d.wanted
}

// Trace returns the span of the action that asked for what is desired of a deployment; "" for none.
func (m *memory) Trace(deployment v2.DeploymentID) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.deployments[deployment].trace
}

// Address returns a target as backends see it when they plan.
func (m *memory) Address(t pair.Target, r route.Route) syncer.Target {
	m.mu.Lock()
	defer m.mu.Unlock()
	out, d := r.Target(t.Cluster, t.Deployment), m.deployments[t.Deployment]
	out.Namespace = d.namespace
	out.Cloud = syncer.Cloud{Name: d.cloud.Name, Confined: d.cloud.Confined, Account: d.cloud.Account}
	return out
}

// Cloud returns the logical cloud of a target, and whether a revision of its deployment was
// read: each revision has a namespace.
func (m *memory) Cloud(t pair.Target) (cloud appcontext.Cloud, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.deployments[t.Deployment]
	return d.cloud, d.namespace != ""
}

// Needs returns the apps that an app of a deployment depends on.
func (m *memory) Needs(k appcontext.PairKey) (out []syncer.Dependency) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.deployments[k.Deployment].order
	if o == nil {
		return nil
	}
	for _, d := range o.apps[k.App].DependsOn {
		out = append(out, syncer.Dependency{App: d.App, Ready: d.Ready})
	}
	return out
}
