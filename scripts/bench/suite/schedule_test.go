package suite

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Fast cells run in each round, slow cells once, and nothing starts after the end.
func TestFastCellsHaveMoreTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSchedule(3, 10*time.Minute)
		cells := map[string]time.Duration{"a": time.Second, "b": time.Minute, "c": 4 * time.Minute, "d": 2 * time.Second}
		turns := map[string]int{}
		for round := 1; round <= 3 && s.begin(round); round++ {
			for _, cell := range []string{"c", "b", "a", "d"} {
				if s.may(cell) {
					turns[cell]++
					time.Sleep(cells[cell]) // of the bubble's clock
					s.note(cell, cells[cell])
				}
			}
		}
		if turns["a"] != 3 || turns["d"] != 3 || turns["b"] != 3 || turns["c"] != 1 {
			t.Errorf("turns are %v", turns)
		}
	})
}

func TestNothingBeginsAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSchedule(3, time.Minute)
		s.begin(1)
		if !s.may("a") {
			t.Error("the first cell does not run")
		}
		time.Sleep(2 * time.Minute) // of the bubble's clock
		s.note("a", 2*time.Minute)
		if s.may("b") || !slices.Equal(s.left, []string{"b: there was no time"}) {
			t.Errorf("skipped are %v, want b", s.left)
		}
		if s.begin(2) {
			t.Error("there is another round")
		}
	})
}

func TestWithoutALimitAllHaveAllTurns(t *testing.T) {
	t.Parallel()
	s := newSchedule(2, 0)
	s.begin(1)
	s.note("a", time.Hour)
	if !s.begin(2) || !s.may("a") {
		t.Error("there is no second turn")
	}
}
