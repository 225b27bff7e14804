package fairshare

import (
	"fmt"
	"strconv"
	"strings"
)

// maxWeight bounds a weight.
const maxWeight = 100

// Weights reads weights of tenants, each as name=number, and returns their function; 1 for a
// tenant that is not listed.
func Weights(list []string) (func(tenant string) int, error) {
	weights := make(map[string]int, len(list))
	for _, item := range list {
		name, text, _ := strings.Cut(item, "=")
		n, err := strconv.Atoi(text)
		if err != nil || name == "" || n < 1 || n > maxWeight {
			return nil, fmt.Errorf("%q is not name=number with a number from 1 to %d", item, maxWeight)
		}
		weights[name] = n
	}
	return func(tenant string) int { return max(1, weights[tenant]) }, nil
}
