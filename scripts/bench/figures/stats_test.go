package figures

import (
	"math"
	"testing"
)

func TestStatistics(t *testing.T) {
	t.Parallel()
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %g, want %g", what, got, want)
		}
	}
	near("median of an odd number", Median([]float64{3, 1, 2}), 2)
	near("median of an even number", Median([]float64{4, 1, 2, 3}), 2.5)
	near("the highest quantile", Quantile([]float64{1, 2, 9}, 1), 9)
	near("slope of a square", Slope([]float64{1, 10, 100}, []float64{1, 100, 10000}), 2)
	near("slope of a constant", Slope([]float64{1, 10}, []float64{7, 7}), 0)
	if low, high := Interval([]float64{5, 5, 5}); low != 5 || high != 5 {
		t.Errorf("interval of equal values is %g to %g", low, high)
	}
	low, high := Interval([]float64{1, 2, 3, 4, 100})
	if !(1 <= low && low <= 3 && 3 <= high && high <= 100) {
		t.Errorf("interval is %g to %g, want it around 3", low, high)
	}
	if !math.IsNaN(Median(nil)) || !math.IsNaN(Slope([]float64{1}, []float64{1})) {
		t.Error("nothing has a median or a slope")
	}
}
