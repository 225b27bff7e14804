// Package quantity reads amounts as Kubernetes writes them, such as 500m and 2Gi, when anybody may have written them. Kubernetes' own
// reader may work for hours on an exponent of many digits.
package quantity

import (
	"errors"
	"fmt"
	"math"
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxText bounds an amount.
const maxText = 128

// steep is an exponent that no amount needs.
var steep = regexp.MustCompile(`[eE][+-]?[0-9]{3,}`)

// costly matches the texts on which Kubernetes' reader works long. It skips all spaces of Unicode around an amount.
var costly = regexp.MustCompile(`^[\s\pZ\x{85}]*[+-]?([0-9.]*[eE][+-]?[0-9]{3,}[\s\pZ\x{85}]*$|[0-9.]{200})`)

// Costly reports whether Kubernetes' reader may work for hours on a text.
func Costly(text string) bool { return costly.MatchString(text) }

// Parse reads an amount. Errors give the reason and do not repeat the text.
func Parse(text string) (resource.Quantity, error) {
	switch {
	case len(text) > maxText:
		return resource.Quantity{}, fmt.Errorf("it is longer than %d characters", maxText)
	case steep.MatchString(text):
		return resource.Quantity{}, errors.New("its exponent has more than two digits")
	}
	q, err := resource.ParseQuantity(text)
	if err == nil && (q.CmpInt64(math.MaxInt64) > 0 || q.CmpInt64(math.MinInt64) < 0) {
		return resource.Quantity{}, errors.New("it has more than 63 bits, the limit of Kubernetes' amounts")
	}
	return q, err
}
