package status_test

import (
	"fmt"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/status"
)

// BenchmarkDecode reads a report of ten apps with ten objects each.
func BenchmarkDecode(b *testing.B) {
	text, err := status.Encode(fleetReport(), 0)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := status.Decode(text); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDigest computes the digest of the same report.
func BenchmarkDigest(b *testing.B) {
	r := fleetReport()
	b.ReportAllocs()
	for b.Loop() {
		status.Digest(r)
	}
}

func fleetReport() status.Report {
	r := sample()
	r.Apps = nil
	for a := range 10 {
		app := status.App{Label: fmt.Sprintf("42-app%d", a)}
		for i := range 10 {
			app.Objects = append(app.Objects, object(fmt.Sprint("web-", i), status.Current, "0123456789abcdef"))
		}
		r.Apps = append(r.Apps, app)
	}
	return r
}
