// Package criteria makes preferences of placements from documents: cost, carbon intensity,
// capacity, distance and other numbers among the key-value pairs of clusters.
package criteria

import (
	"math"
	"strconv"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
)

// Of returns the preference of a document; the zero Preference for nil.
func Of(c *v2.Choice) placement.Preference {
	if c == nil {
		return placement.Preference{}
	}
	out := placement.Preference{Count: c.Count, SpreadBy: spread(c.SpreadBy)}
	for _, p := range c.Prefer {
		out.Scorers = append(out.Scorers, scorer(p))
	}
	return out
}

// spread returns the property that clusters are spread by; nil for none.
func spread(by string) placement.Property {
	switch by {
	case "":
		return nil
	case "clusterProvider":
		return func(c placement.Cluster, _ map[string]string) (string, bool) { return c.Provider, true }
	}
	return func(_ placement.Cluster, facts map[string]string) (string, bool) {
		value, ok := facts[by]
		return value, ok
	}
}

func scorer(p v2.Criterion) placement.Scorer {
	out := placement.Scorer{Name: p.By, Weight: float64(max(p.Weight, 1)), Lowest: true}
	switch p.By {
	case v2.ByCost:
		out.Value = number(v2.FactCost)
	case v2.ByCarbon:
		out.Value = number(v2.FactCarbon)
	case v2.ByCapacity:
		out.Value, out.Lowest = number(v2.FactCapacity), false
	case v2.ByDistance:
		out.Value = distance(coordinates{*p.Latitude, *p.Longitude})
	default:
		out.Name, out.Value, out.Lowest = p.Fact, number(p.Fact), p.Order == "lowest"
	}
	return out
}

// number reads a fact that is a number.
func number(key string) func(placement.Cluster, map[string]string) (float64, bool) {
	return func(_ placement.Cluster, facts map[string]string) (float64, bool) {
		return parse(facts[key])
	}
}

func parse(text string) (float64, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}

// coordinates is a place on Earth, in degrees.
type coordinates struct{ latitude, longitude float64 }

// distance returns the kilometres between a point and a cluster.
func distance(from coordinates) func(placement.Cluster, map[string]string) (float64, bool) {
	return func(_ placement.Cluster, facts map[string]string) (float64, bool) {
		latitude, known := parse(facts[v2.FactLatitude])
		longitude, also := parse(facts[v2.FactLongitude])
		return math.Round(from.to(coordinates{latitude, longitude})), known && also
	}
}

// earth is the mean radius of Earth in kilometres.
const earth = 6371

// to returns the kilometres to another point, by the haversine formula.
func (p coordinates) to(q coordinates) float64 {
	const degree = math.Pi / 180
	a, b := math.Sin((q.latitude-p.latitude)*degree/2), math.Sin((q.longitude-p.longitude)*degree/2)
	h := a*a + math.Cos(p.latitude*degree)*math.Cos(q.latitude*degree)*b*b
	return 2 * earth * math.Asin(math.Sqrt(min(h, 1)))
}
