package suite

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// cellSchedule divides the time of a run among cells (a peer in a case). The first round runs all cells.
// Later rounds run the fastest cells first, as many as fit into the round's share of the remaining
// time. So fast cells have several measurements and slow cells at least one.
type cellSchedule struct {
	rounds int
	budget time.Duration // 0: no limit
	began  time.Time
	took   map[string]time.Duration // duration of the last turn of each cell, with preparation
	first  bool                     // round
	chosen map[string]bool          // for a later round
	left   []string                 // skipped cells, with the reason
}

func newSchedule(rounds int, budget time.Duration) *cellSchedule {
	return &cellSchedule{rounds: rounds, budget: budget, began: time.Now(), took: map[string]time.Duration{}}
}

// begin chooses the cells of a round, starting from round 1. It reports whether there are any.
func (s *cellSchedule) begin(round int) bool {
	if s.first = round == 1; s.first {
		return true
	}
	s.chosen = map[string]bool{}
	share := (s.budget - time.Since(s.began)) / time.Duration(s.rounds-round+1)
	for _, cell := range s.cheapest() {
		if share -= s.took[cell]; s.budget > 0 && share < 0 {
			break
		}
		s.chosen[cell] = true
	}
	return len(s.chosen) > 0
}

// cheapest lists the cells that have run, the fastest first.
func (s *cellSchedule) cheapest() []string {
	return slices.SortedFunc(maps.Keys(s.took), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.took[a], s.took[b]), cmp.Compare(a, b))
	})
}

// may reports whether a cell runs in this round.
func (s *cellSchedule) may(cell string) bool {
	late := s.budget > 0 && time.Since(s.began) > s.budget
	switch {
	case !s.first:
		return s.chosen[cell] && !late
	case late:
		s.omit(cell + ": there was no time")
		return false
	}
	return true
}

// omit records, once, a skipped cell.
func (s *cellSchedule) omit(what string) {
	if !slices.Contains(s.left, what) {
		s.left = append(s.left, what)
	}
}

// note records the duration of a cell's turn.
func (s *cellSchedule) note(cell string, took time.Duration) { s.took[cell] = took }
