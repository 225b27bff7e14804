package quantity_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/quantity"
)

func TestAmounts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"500m": "500m", "2Gi": "2Gi", "1E": "1E", "12e6": "12e6", "1e-3": "1e-3", "+1.5": "1500m", "1e12": "1e12"} {
		if got, err := quantity.Parse(text); err != nil || got.String() != want {
			t.Errorf("Parse(%q) = %v, %v, want %s", text, got.String(), err, want)
		}
	}
	for _, text := range []string{
		"", "many", "1e", "1Gi2", "1e-2147483647", "1E-2147483647", "0.1e-100000000", "1e+100000000", "1e9223372036854775807", strings.Repeat("9", 129),
	} {
		if got, err := quantity.Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, got.String())
		}
	}
}
