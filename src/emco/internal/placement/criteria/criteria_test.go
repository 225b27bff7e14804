package criteria_test

import (
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement/criteria"
)

func TestCriteriaReadTheirFacts(t *testing.T) {
	t.Parallel()
	berlin := map[string]string{"cost": " 1.5", "carbonIntensity": "380", "capacity": "12", "latitude": "52.52", "longitude": "13.405", "latency": "7", "bad": "x"}
	latitude, longitude := 48.1372, 11.5755 // Munich, about 504 km away
	for name, tt := range map[string]struct {
		by     v2.Criterion
		number float64
		known  bool
		lowest bool
	}{
		"cost":           {v2.Criterion{By: v2.ByCost}, 1.5, true, true},
		"carbon":         {v2.Criterion{By: v2.ByCarbon}, 380, true, true},
		"capacity":       {v2.Criterion{By: v2.ByCapacity}, 12, true, false},
		"distance":       {v2.Criterion{By: v2.ByDistance, Latitude: &latitude, Longitude: &longitude}, 504, true, true},
		"a lowest fact":  {v2.Criterion{By: v2.ByFact, Fact: "latency", Order: "lowest"}, 7, true, true},
		"a highest fact": {v2.Criterion{By: v2.ByFact, Fact: "latency", Order: "highest"}, 7, true, false},
		"no number":      {v2.Criterion{By: v2.ByFact, Fact: "bad", Order: "lowest"}, 0, false, true},
		"no fact":        {v2.Criterion{By: v2.ByFact, Fact: "none", Order: "lowest"}, 0, false, true},
	} {
		p := criteria.Of(&v2.Choice{Count: 2, Prefer: []v2.Criterion{tt.by}})
		if p.Count != 2 || p.SpreadBy != nil || len(p.Scorers) != 1 {
			t.Fatalf("%s: %+v", name, p)
		}
		s := p.Scorers[0]
		number, known := s.Value(placement.Cluster{}, berlin)
		if known != tt.known || known && number != tt.number || s.Lowest != tt.lowest || s.Weight != 1 || s.Name == "" {
			t.Errorf("%s: %v, %t, %+v", name, number, known, s)
		}
	}
	if p := criteria.Of(nil); p.Count != 0 || p.Scorers != nil || p.SpreadBy != nil {
		t.Errorf("without a document: %+v", p)
	}
}

func TestClustersAreSpreadByProviderOrFact(t *testing.T) {
	t.Parallel()
	at, facts := placement.Cluster{Provider: "edge", Name: "a"}, map[string]string{"zone": "north"}
	for by, want := range map[string]string{"clusterProvider": "edge", "zone": "north", "rack": ""} {
		if got, _ := criteria.Of(&v2.Choice{SpreadBy: by}).SpreadBy(at, facts); got != want {
			t.Errorf("by %s: %q, want %q", by, got, want)
		}
	}
}
