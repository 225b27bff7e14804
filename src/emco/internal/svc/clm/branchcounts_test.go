package clm

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
)

const edge store.Key = "cluster-providers/edge"

// countedFleet is a provider whose clusters are counted.
type countedFleet struct {
	db    *store.DB
	reads *resourcetest.Reads
}

func newCountedFleet(t *testing.T) countedFleet {
	t.Helper()
	driver, blobs := resourcetest.Driver(t)
	f := countedFleet{reads: &resourcetest.Reads{Driver: driver}}
	f.db = store.New(f.reads, blobs, seal.New(seal.NewKey()))
	resourcetest.Put(t, f.db, edge, v2.Named{}, "")
	for _, name := range []string{"r0", "r1"} {
		resourcetest.Put(t, f.db, edge+"/cluster-sync-objects/"+store.Key(name), nil, `{"metadata":{"name":"`+name+`"},"spec":{"kv":[{"url":"https://git.example/`+name+`"},{"branch":"main"},{"userName":"emco"},{"gitToken":"secret"}]}}`)
	}
	return f
}

// counts returns counts that have read nothing yet.
func (f countedFleet) counts() *branchCounts {
	return &branchCounts{resources: Resources{DB: f.db, Backends: backends.Backends()}}
}

func (f countedFleet) document(n int, g v2.GitOps) store.Write {
	body := fmt.Appendf(nil, `{"metadata":{"name":"c%d"},"spec":{"gitOps":{"gitOpsType":"git","gitOpsReferenceObject":%q,"gitOpsRefMode":%q,"gitOpsShard":%q}}}`, n, g.Reference, g.RefMode, g.Shard)
	return store.Write{Key: edge + store.Key(fmt.Sprint("/clusters/c", n)), Parent: edge, Body: body}
}

// After any writes, counts that follow them equal new ones, and have listed the registrations once.
func TestCountsThatFollowEqualNewOnes(t *testing.T) {
	t.Parallel()
	f := newCountedFleet(t)
	rapid.Check(t, func(r *rapid.T) {
		kept := f.counts()
		if err := kept.update(t.Context()); err != nil {
			r.Fatal(err)
		}
		for range rapid.IntRange(1, 4).Draw(r, "updates") {
			for range rapid.IntRange(0, 4).Draw(r, "writes") {
				w := f.document(rapid.IntRange(0, 5).Draw(r, "cluster"), v2.GitOps{
					Reference: rapid.SampledFrom([]string{"r0", "r1"}).Draw(r, "repository"),
					RefMode:   rapid.SampledFrom([]string{"", "cluster"}).Draw(r, "mode"),
					Shard:     rapid.SampledFrom([]string{"s000", "s001"}).Draw(r, "shard"),
				})
				switch rapid.IntRange(0, 2).Draw(r, "kind") {
				case 0:
					_, _ = f.db.Create(t.Context(), w)
				case 1:
					_, _ = f.db.Replace(t.Context(), w, 0)
				default:
					_ = f.db.Delete(t.Context(), w.Key, nil)
				}
			}
			f.reads.Listed.Store(0)
			if err := kept.update(t.Context()); err != nil {
				r.Fatal(err)
			}
			if n := f.reads.Listed.Load(); n > 0 {
				r.Fatalf("%d documents were listed again", n)
			}
			fresh := f.counts()
			if err := fresh.update(t.Context()); err != nil {
				r.Fatal(err)
			}
			if !reflect.DeepEqual(kept.places, fresh.places) || !reflect.DeepEqual(kept.branches, fresh.branches) {
				r.Fatalf("counts that followed are\n%+v\n%+v, new ones\n%+v\n%+v", kept.places, kept.branches, fresh.places, fresh.branches)
			}
			for url, n := range kept.own {
				if n != fresh.own[url] {
					r.Fatalf("%d branches of clusters' own in %s, want %d", n, url, fresh.own[url])
				}
			}
		}
	})
}

// A place that was assigned counts until its registration is there, or for a minute if none comes.
func TestAnAssignedPlaceCountsForAWhile(t *testing.T) {
	t.Parallel()
	f := newCountedFleet(t)
	c := f.counts()
	synctest.Test(t, func(t *testing.T) {
		at := branchKey{"https://git.example/r0", "main", ""}
		want := func(when string, clusters int) {
			t.Helper()
			if err := c.update(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := c.branches[at].clusters; n != clusters || len(c.places) != clusters {
				t.Errorf("%s: %d clusters on the branch, %d in all, want %d", when, n, len(c.places), clusters)
			}
		}
		want("at first", 0)
		c.assign("edge+c0", countedPlace{branch: at, flat: true})
		c.assign("edge+c1", countedPlace{branch: at, flat: true})
		want("before they are stored", 2)
		if _, err := f.db.Create(t.Context(), f.document(0, v2.GitOps{Reference: "r0"})); err != nil {
			t.Fatal(err)
		}
		want("after one is stored", 2)
		time.Sleep(assignedFor)
		want("after the other one was refused", 1)
		if err := f.db.Delete(t.Context(), edge+"/clusters/c0", nil); err != nil {
			t.Fatal(err)
		}
		want("after it was deregistered", 0)
	})
}

// While the places are counted in the background, a registration reads only what was written in the last seconds.
func TestARegistrationDoesNotWaitForTheFirstCount(t *testing.T) {
	t.Parallel()
	f := newCountedFleet(t)
	for n := range 20 {
		if _, err := f.db.Create(t.Context(), f.document(n, v2.GitOps{Reference: "r0"})); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		a := newSlotAllocator(f.counts().resources)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- (&Places{a}).Run(ctx) }()
		time.Sleep(time.Second)
		f.reads.Listed.Store(0)
		var c v2.Cluster
		c.Metadata.Name, c.Spec.GitOps = "new", v2.GitOps{Type: "git", Reference: "r0", RefMode: "shard"}
		at := resource.Place{Key: edge + "/clusters/new", Collection: edge + "/clusters", Parent: edge, Vars: map[string]string{"clusterProvider": "edge"}}
		if err := a.assignSlot(t.Context(), at, &c); err != nil || c.Spec.GitOps.Shard == "" {
			t.Errorf("the place is %+v, %v", c.Spec.GitOps, err)
		}
		if n := f.reads.Listed.Load(); n > 0 {
			t.Errorf("%d documents were listed for a registration", n)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
