package v2

import "fmt"

// The criteria by which clusters are compared.
const (
	ByCost     = "cost"
	ByCarbon   = "carbon"
	ByCapacity = "capacity"
	ByDistance = "distance"
	ByFact     = "fact"
)

// The key-value pairs of clusters that criteria read.
const (
	FactCost      = "cost"
	FactCarbon    = "carbonIntensity"
	FactCapacity  = "capacity"
	FactLatitude  = "latitude"
	FactLongitude = "longitude"
)

// Choice says how many clusters of each anyOf an app goes to, and which are preferred. It is an
// addition to upstream's API.
type Choice struct {
	Count    int         `json:"count,omitempty"`    // clusters of each anyOf; 0 is 1
	SpreadBy string      `json:"spreadBy,omitempty"` // clusterProvider, or a key-value pair of clusters: its values get equally many
	Prefer   []Criterion `json:"prefer,omitempty"`   // how clusters are compared; empty: by name
}

// Criterion compares clusters by a number among their key-value pairs.
type Criterion struct {
	By        string   `json:"by"`                  // cost, carbon, capacity, distance or fact
	Fact      string   `json:"fact,omitempty"`      // of fact: the key of the key-value pair
	Order     string   `json:"order,omitempty"`     // of fact: lowest or highest
	Latitude  *float64 `json:"latitude,omitempty"`  // of distance: the place to be near, in degrees
	Longitude *float64 `json:"longitude,omitempty"` // as latitude
	Weight    int      `json:"weight,omitempty"`    // among the criteria; 0 is 1
}

// Limits of choices.
const (
	maxChosen   = 10_000
	maxCriteria = 20
	maxWeight   = 1000 // of hardware needs too
)

func (s *Choice) check(c *violationList) {
	c.between("spec.intent.choose.count", s.Count, 0, maxChosen)
	c.text("spec.intent.choose.spreadBy", s.SpreadBy, maxKVKey)
	if len(s.Prefer) > maxCriteria {
		c.fail("spec.intent.choose.prefer", "%d criteria, at most %d are allowed", len(s.Prefer), maxCriteria)
		return
	}
	for i, p := range s.Prefer {
		at := fmt.Sprintf("spec.intent.choose.prefer[%d].", i)
		c.between(at+"weight", p.Weight, 0, maxWeight)
		place := p.Latitude != nil || p.Longitude != nil
		switch p.By {
		case ByCost, ByCarbon, ByCapacity:
		case ByDistance:
			if p.Latitude == nil || *p.Latitude < -90 || *p.Latitude > 90 {
				c.fail(at+"latitude", "missing, or not between -90 and 90")
			}
			if p.Longitude == nil || *p.Longitude < -180 || *p.Longitude > 180 {
				c.fail(at+"longitude", "missing, or not between -180 and 180")
			}
		case ByFact:
			if p.Fact == "" || len(p.Fact) > maxKVKey {
				c.fail(at+"fact", "a key has 1 to %d characters", maxKVKey)
			}
			if p.Order != "lowest" && p.Order != "highest" {
				c.fail(at+"order", "%s is neither lowest nor highest", quote(p.Order))
			}
		default:
			c.fail(at+"by", "%s is none of cost, carbon, capacity, distance, fact", quote(p.By))
		}
		if p.By != ByFact && (p.Fact != "" || p.Order != "") {
			c.fail(at+"by", "fact and order belong to the criterion fact")
		}
		if p.By != ByDistance && place {
			c.fail(at+"by", "latitude and longitude belong to the criterion distance")
		}
	}
}
