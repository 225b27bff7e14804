package planview

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

func planOf(n int) v2.Plan {
	return v2.Plan{Digest: fmt.Sprintf("sha256:%064d", n), Apps: []v2.AppPlan{{Name: "web", Classes: []v2.PlanClass{{Change: v2.ChangeAdd}}}}}
}

func (s *Cache) has(n int) bool {
	_, ok := s.find("g", planOf(n).Digest)
	return ok
}

func TestTheNewestPlansAreKeptForAWhile(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	s := NewCache(func() time.Time { return now })
	keep := func(p v2.Plan) v2.PlanClasses {
		t.Helper()
		out, err := s.Keep("g", p)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if until := keep(planOf(0)).Until; !until.Equal(now.Add(lifetime)) {
		t.Errorf("the plan is kept until %s", until)
	}
	if _, ok := s.find("another", planOf(0).Digest); ok {
		t.Error("a plan is found in another group")
	}
	for n := range maxPlans {
		keep(planOf(n + 1))
	}
	if s.has(0) || !s.has(1) || !s.has(maxPlans) {
		t.Errorf("%d plans are kept, want the newest %d", len(s.plans), maxPlans)
	}
	now = now.Add(lifetime / 2)
	keep(planOf(1)) // made again: kept longer
	now = now.Add(lifetime / 2)
	if s.has(2) || !s.has(1) || len(s.plans) != 1 {
		t.Errorf("%d plans are kept after their time", len(s.plans))
	}
	large := planOf(99)
	large.Apps[0].Classes[0].Objects = []v2.ObjectChange{{After: json.RawMessage(`"` + strings.Repeat("x", maxBytes) + `"`)}}
	keep(large)
	if !s.has(1) || s.has(99) || len(s.plans) != 1 {
		t.Errorf("%d plans of %d bytes are kept, want the one from before: the last one is larger than the cache", len(s.plans), s.bytes)
	}
}

func TestAPlanInShortHasFewRows(t *testing.T) {
	t.Parallel()
	var p v2.Plan
	for range 20 {
		app := v2.AppPlan{}
		for range 20 {
			class := v2.PlanClass{Change: v2.ChangeChange, Objects: []v2.ObjectChange{{Change: v2.ChangeKeep}, {Change: v2.ChangeAdd}, {Change: v2.ChangeAdd}}}
			for i := range 20 {
				class.Clusters = append(class.Clusters, v2.PlanCluster{Cluster: fmt.Sprint("edge+c", i), Reason: fmt.Sprint("reason ", i)})
			}
			app.Classes = append(app.Classes, class)
		}
		p.Apps = append(p.Apps, app)
	}
	classes, objects, left, hidden := 0, 0, 0, 0
	for _, a := range inShort(p, time.Time{}).Apps {
		left += a.Left
		for _, c := range a.Classes {
			classes++
			objects, hidden = objects+len(c.Objects), hidden+c.Left
			if c.Count != 20 || len(c.Sample) != sampleSize || c.Reason != "reason 0" {
				t.Errorf("a class is %+v", c)
			}
		}
	}
	if classes != maxClasses || left != 400-maxClasses || objects != maxObjects || objects+hidden != 2*classes {
		t.Errorf("%d classes and %d left out, %d objects and %d left out", classes, left, objects, hidden)
	}
	app, class, ok := classOf(p, "c20-20")
	if !ok || app != "" || len(class.Clusters) != 20 {
		t.Errorf("the last class is %+v of %q", class, app)
	}
}
