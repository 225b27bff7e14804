// Package planview keeps the plans of dry runs for some minutes, so that clients read them in
// parts below /v2/views: a plan of a fleet has more clusters and contents than one answer should have.
package planview

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// The limits of a cache.
const (
	maxPlans = 50
	maxBytes = 64 << 20
	lifetime = 10 * time.Minute
)

// The limits of an answer with classes.
const (
	maxClasses = 200 // of all apps
	maxObjects = 200 // of all classes
	sampleSize = 5   // clusters of a class
)

// planKey identifies a plan of a group.
type planKey struct {
	group store.Key
	sum   string // of its digest, which is "sha256:" and this
}

func keyOf(group store.Key, digest string) planKey {
	return planKey{group, strings.TrimPrefix(digest, "sha256:")}
}

// keptPlan is a plan in the cache.
type keptPlan struct {
	key   planKey
	plan  v2.Plan
	bytes int
	until time.Time
}

// Cache keeps the newest plans in memory. A plan is kept to be read; an action plans again, so
// nothing depends on a plan being there.
type Cache struct {
	now func() time.Time

	mu    sync.Mutex
	plans []keptPlan // the oldest first; guarded by mu
	bytes int        // of all plans; guarded by mu
}

// NewCache returns an empty cache.
func NewCache(now func() time.Time) *Cache { return &Cache{now: now} }

// Keep keeps a plan of a group and returns it in short. A plan that is larger than the cache is
// not kept, and removes no other plan but an older one with the same digest.
func (c *Cache) Keep(group store.Key, p v2.Plan) (v2.PlanClasses, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return v2.PlanClasses{}, err
	}
	k := keptPlan{keyOf(group, p.Digest), p, len(text), c.now().Add(lifetime)}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, have := range c.plans {
		if have.key == k.key {
			c.removeLocked(i)
			break
		}
	}
	if k.bytes <= maxBytes {
		c.plans, c.bytes = append(c.plans, k), c.bytes+k.bytes
	}
	for len(c.plans) > maxPlans || c.bytes > maxBytes {
		c.removeLocked(0)
	}
	c.expireLocked()
	return inShort(p, k.until), nil
}

// find returns a plan, and false if it is not kept any longer.
func (c *Cache) find(group store.Key, digest string) (v2.Plan, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expireLocked()
	for _, k := range c.plans {
		if k.key == keyOf(group, digest) {
			return k.plan, true
		}
	}
	return v2.Plan{}, false
}

func (c *Cache) expireLocked() {
	for len(c.plans) > 0 && !c.now().Before(c.plans[0].until) {
		c.removeLocked(0)
	}
}

func (c *Cache) removeLocked(i int) {
	c.bytes -= c.plans[i].bytes
	c.plans = append(c.plans[:i:i], c.plans[i+1:]...)
}

// inShort returns a plan without the names of all clusters and the contents of objects.
func inShort(p v2.Plan, until time.Time) v2.PlanClasses {
	out := v2.PlanClasses{
		StatusSubject: p.StatusSubject, Digest: p.Digest, Until: until.UTC(), Action: p.Action, Revision: p.Revision, From: p.From,
		Confirm: p.Confirm, Notes: p.Notes, Summary: p.Summary, Apps: []v2.AppClasses{},
	}
	classes, objects := maxClasses, maxObjects // that the answer may still have
	for a, app := range p.Apps {
		short := v2.AppClasses{Name: app.Name, Failure: app.Failure, Findings: app.Findings, Classes: []v2.ClassDigest{}, Refused: len(app.Refused)}
		for c, class := range app.Classes {
			if classes == 0 {
				short.Left++
				continue
			}
			classes--
			digest := v2.ClassDigest{
				ID: "c" + strconv.Itoa(a+1) + "-" + strconv.Itoa(c+1), Change: class.Change, Count: len(class.Clusters),
				Sample: []string{}, Objects: []v2.ObjectDigest{},
			}
			for i, cluster := range class.Clusters[:min(sampleSize, len(class.Clusters))] {
				if i == 0 {
					digest.Reason = cluster.Reason
				}
				digest.Sample = append(digest.Sample, cluster.Cluster)
			}
			for i, o := range class.Objects {
				switch {
				case o.Change == v2.ChangeKeep:
				case objects == 0:
					digest.Left++
				default:
					objects--
					digest.Objects = append(digest.Objects, v2.ObjectDigest{
						ID: strconv.Itoa(i + 1), GVK: o.GVK, Name: o.Name, Namespace: o.Namespace, Hook: o.Hook, Change: o.Change,
					})
				}
			}
			short.Classes = append(short.Classes, digest)
		}
		out.Apps = append(out.Apps, short)
	}
	return out
}

// classOf returns the class with an id, with the name of its app.
func classOf(p v2.Plan, id string) (app string, class v2.PlanClass, ok bool) {
	for a, one := range p.Apps {
		for c, class := range one.Classes {
			if id == "c"+strconv.Itoa(a+1)+"-"+strconv.Itoa(c+1) {
				return one.Name, class, true
			}
		}
	}
	return "", v2.PlanClass{}, false
}
