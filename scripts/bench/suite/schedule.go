package suite

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// schedule shares the time of a run among cells, a peer in a case each. In the first
// round all have their turn. In those after it the cells that took least come first, as
// many as fit into the round's share of the time that is left, so that what is fast is
// measured often and what is slow at least once.
type schedule struct {
	rounds int
	budget time.Duration // 0: no limit
	began  time.Time
	took   map[string]time.Duration // of the last turn of each cell, with all that belongs to it
	first  bool                     // round
	chosen map[string]bool          // for a round that is not the first
	left   []string                 // what is left out, with the reason
}

func newSchedule(rounds int, budget time.Duration) *schedule {
	return &schedule{rounds: rounds, budget: budget, began: time.Now(), took: map[string]time.Duration{}}
}

// begin chooses the cells of a round, of which the first is 1. It says whether there are any.
func (s *schedule) begin(round int) bool {
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

// cheapest lists the cells that had a turn, those that took least first.
func (s *schedule) cheapest() []string {
	return slices.SortedFunc(maps.Keys(s.took), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.took[a], s.took[b]), cmp.Compare(a, b))
	})
}

// may says whether a cell is to have a turn in this round.
func (s *schedule) may(cell string) bool {
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

// omit notes, once, what is left out.
func (s *schedule) omit(what string) {
	if !slices.Contains(s.left, what) {
		s.left = append(s.left, what)
	}
}

// note tells what a turn of a cell took.
func (s *schedule) note(cell string, took time.Duration) { s.took[cell] = took }
