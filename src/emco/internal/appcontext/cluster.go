package appcontext

import (
	"context"
	"time"
)

// PairsOn returns the pairs of a cluster, in order of deployment and app.
func (s *Store) PairsOn(ctx context.Context, cluster string) ([]Pair, error) {
	if err := checkParts(cluster); err != nil {
		return nil, err
	}
	var out []Pair
	for p, err := range records(s.list(ctx, &scan{prefix: s.key("pair", cluster) + "/"}), s.parsePair) {
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// LastReport returns the highest sequence of a cluster's reports that were written down,
// and when that report was received; zero if there is none of an agent. It reads all
// reports of the cluster.
func (s *Store) LastReport(ctx context.Context, cluster string) (seq uint64, at time.Time, err error) {
	a, err := s.Agent(ctx, cluster)
	if err != nil {
		return 0, at, err
	}
	seq, at = a.Seq, a.At
	for r, err := range records(s.list(ctx, &scan{prefix: s.key("report", cluster) + "/"}), s.parseReport) {
		if err != nil {
			return 0, at, err
		}
		if r.Seq > seq {
			seq, at = r.Seq, r.At
		}
	}
	return seq, at, nil
}
