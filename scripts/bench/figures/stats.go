package figures

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Sum of values.
func Sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

// Median of values; NaN without values.
func Median(values []float64) float64 { return Quantile(values, 0.5) }

// Quantile of values between 0 and 1, by linear interpolation.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// resamples is the number of draws of the bootstrap.
const resamples = 2000

// Interval is the 95 % interval of the median of values by bootstrap. The draws are always the same, so
// the same samples give the same table.
func Interval(values []float64) (low, high float64) {
	if len(values) < 2 {
		return math.NaN(), math.NaN()
	}
	draw := rand.New(rand.NewPCG(1, uint64(len(values))))
	medians := make([]float64, resamples)
	again := make([]float64, len(values))
	for i := range medians {
		for k := range again {
			again[k] = values[draw.IntN(len(values))]
		}
		medians[i] = Median(again)
	}
	return Quantile(medians, 0.025), Quantile(medians, 0.975)
}

// Slope of the line through the logarithms of points: 1 means that y grows like x, 0 that it does not
// grow.
func Slope(x, y []float64) float64 {
	if len(x) < 2 || len(x) != len(y) {
		return math.NaN()
	}
	var sx, sy, sxx, sxy float64
	for i := range x {
		lx, ly := math.Log(x[i]), math.Log(y[i])
		sx, sy, sxx, sxy = sx+lx, sy+ly, sxx+lx*lx, sxy+lx*ly
	}
	n := float64(len(x))
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}
