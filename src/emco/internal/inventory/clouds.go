package inventory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// references follows the key of a logical cloud in the keys of its members.
const references = "/cluster-references"

// maxClouds bounds the logical clouds in memory.
const maxClouds = 256

// cachedClouds are logical clouds that were looked up, or that got members while the inventory was followed. It does not lock.
type cachedClouds struct {
	confine Confine
	known   map[store.Key]*cachedCloud
	grown   map[store.Key]bool // clouds that are not known, and were written or have got members since the last takeGrown
	lookups int64              // counts calls of get
}

// cachedCloud is a logical cloud with its members.
type cachedCloud struct {
	members map[string]v2.ClusterKey // by the name of the reference
	filter  placement.Filter         // nil: the members have changed since it was made
	used    int64                    // number of its last lookup
}

func newCachedClouds(confine Confine) cachedClouds {
	return cachedClouds{confine: confine, known: map[store.Key]*cachedCloud{}, grown: map[store.Key]bool{}}
}

// expire has the members of all clouds listed again.
func (c *cachedClouds) expire() {
	for k := range c.known {
		if len(c.grown) < maxClouds {
			c.grown[k] = true
		}
	}
	clear(c.known)
}

// get returns the filter of a logical cloud, and lists its members if they are not known. The error is that of the store.
func (c *cachedClouds) get(ctx context.Context, db *store.DB, key store.Key, name string) (placement.Filter, error) {
	cloud := c.known[key]
	if cloud == nil {
		listed, err := listMembers(ctx, db, key)
		if err != nil {
			return nil, err
		}
		c.evict()
		cloud = &cachedCloud{members: listed}
		c.known[key] = cloud
		delete(c.grown, key)
	}
	if cloud.filter == nil {
		cloud.filter = c.confine(name, slices.Collect(maps.Values(cloud.members)))
	}
	c.lookups++
	cloud.used = c.lookups
	return cloud.filter, nil
}

func listMembers(ctx context.Context, db *store.DB, key store.Key) (map[string]v2.ClusterKey, error) {
	members := map[string]v2.ClusterKey{}
	for doc, err := range db.List(ctx, key+references, store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		if err := addMember(members, doc); err != nil {
			return nil, err
		}
	}
	return members, nil
}

func addMember(members map[string]v2.ClusterKey, doc store.Doc) error {
	ref, err := store.Decode[v2.ClusterReference](doc)
	if err == nil {
		_, name := splitMember(doc.Key)
		members[strings.Clone(name)] = v2.NewClusterKey(ref.Spec.ClusterProvider, ref.Spec.Cluster)
	}
	return err
}

// evict makes room for a logical cloud.
func (c *cachedClouds) evict() {
	if len(c.known) < maxClouds {
		return
	}
	oldest := slices.MinFunc(slices.Collect(maps.Keys(c.known)), func(a, b store.Key) int {
		return cmp.Compare(c.known[a].used, c.known[b].used)
	})
	delete(c.known, oldest)
}

// update reads the members of known clouds among keys, which are sorted, and notes the other clouds that have members there. It
// forgets a cloud whose own document is among them. After an error it must be called again with these keys.
func (c *cachedClouds) update(ctx context.Context, db *store.DB, keys []store.Key) error {
	var changed []store.Key
	for _, k := range keys {
		if c.known[k] != nil { // the cloud may be another one of this name
			delete(c.known, k)
			c.grown[k] = true
		}
		cloud, name := splitMember(k)
		switch known := c.known[cloud]; {
		case name == "":
		case known != nil:
			changed = append(changed, k)
		case len(c.known)+len(c.grown) < maxClouds:
			c.grown[cloud] = true
		}
	}
	if len(changed) == 0 {
		return nil
	}
	for _, k := range changed { // those that do not exist any longer are gone for good
		cloud, name := splitMember(k)
		delete(c.known[cloud].members, name)
		c.known[cloud].filter = nil
	}
	for doc, err := range db.GetEach(ctx, changed) {
		if err == nil {
			cloud, _ := splitMember(doc.Key)
			err = addMember(c.known[cloud].members, doc)
		}
		if err != nil {
			c.forget(changed)
			return err
		}
	}
	return nil
}

// forget forgets the clouds of members, of which only a part was read.
func (c *cachedClouds) forget(members []store.Key) {
	for _, k := range members {
		cloud, _ := splitMember(k)
		delete(c.known, cloud)
	}
}

// takeGrown returns the clouds that are not known, and were written or have got members since the last call.
func (c *cachedClouds) takeGrown() []store.Key {
	out := slices.Collect(maps.Keys(c.grown))
	clear(c.grown)
	return out
}

// splitMember returns the logical cloud and the name of a member; no name for the key of another document.
func splitMember(k store.Key) (cloud store.Key, name string) {
	key, name, _ := strings.Cut(string(k), references+"/")
	if strings.Contains(name, "/") {
		return "", ""
	}
	return store.Key(key), name
}
