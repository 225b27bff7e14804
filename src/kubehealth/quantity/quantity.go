// Package quantity parses Kubernetes quantities, such as 500m and 2Gi, from untrusted text, because Kubernetes' parser
// may work for hours on a large exponent.
package quantity

import (
	"errors"
	"fmt"
	"math"
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxText bounds a quantity, in bytes.
const maxText = 128

// steep is an exponent that no quantity needs.
var steep = regexp.MustCompile(`[eE][+-]?[0-9]{3,}`)

// costly matches the texts on which Kubernetes' parser works long. It skips all spaces of Unicode around a quantity.
var costly = regexp.MustCompile(`^[\s\pZ\x{85}]*[+-]?([0-9.]*[eE][+-]?[0-9]{3,}[\s\pZ\x{85}]*$|[0-9.]{200})`)

// Costly reports whether Kubernetes' parser may work for hours on a text.
func Costly(text string) bool { return costly.MatchString(text) }

// Parse parses a quantity. Errors give the reason and do not repeat the text.
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
