package quantity_test

import (
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/kubehealth/quantity"
)

func TestAmounts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"500m": "500m", "2Gi": "2Gi", "1E": "1E", "12e6": "12e6", "1e-3": "1e-3", "+1.5": "1500m", "1e12": "1e12"} {
		if got, err := quantity.Parse(text); err != nil || got.String() != want {
			t.Errorf("Parse(%q) = %v, %v, want %s", text, got.String(), err, want)
		}
	}
	for _, text := range []string{"", "500m", "2Gi", "9e123abc", "x1e999", "1e12", strings.Repeat("a", 300)} {
		if quantity.Costly(text) {
			t.Errorf("%q is costly", text)
		}
	}
	for _, text := range []string{"1e-2147483647", " 0.1E-100000000\u3000", "\u0085e999\t", "+1E+100000000", strings.Repeat("9", 100_000)} {
		if !quantity.Costly(text) {
			t.Errorf("%.20q is not costly", text)
		}
	}
	for _, text := range []string{
		"", "many", "1e", "1Gi2", "1e-2147483647", "1E-2147483647", "0.1e-100000000", "1e+100000000", "1e9223372036854775807", strings.Repeat("9", 129),
		"1000000000000000000000", "-1e99", // Kubernetes writes the first as "1"
	} {
		if got, err := quantity.Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, got.String())
		}
	}
}

// FuzzParse looks for amounts that take long, or that change when they are written and read again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"500m", "2Gi", "12e6", "+1.5", "-0.0000000001n", "1e-99", strings.Repeat("9", 128), "1E", ".5Ki"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		start := time.Now()
		got, err := quantity.Parse(text)
		if took := time.Since(start); took > time.Second {
			t.Errorf("Parse(%q) takes %s", text, took)
		}
		if err != nil {
			return
		}
		again, err := quantity.Parse(got.String())
		if err != nil || again.Cmp(got) != 0 {
			t.Errorf("Parse(%q) writes %q, which is %v, %v", text, got.String(), again.String(), err)
		}
	})
}
