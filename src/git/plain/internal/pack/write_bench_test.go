package pack

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

// noise is a manifest of about a kilobyte that has little in common with any other.
func noise(cluster, app, file int) []byte {
	var out strings.Builder
	fmt.Fprintf(&out, "apiVersion: v1\ndata:\n  cluster: c%d\n  text: |\n", cluster)
	random := rand.New(rand.NewPCG(uint64(cluster*1000+app*20+file), 1))
	for out.Len() < 950 {
		fmt.Fprintf(&out, "    %016x%016x%016x\n", random.Uint64(), random.Uint64(), random.Uint64())
	}
	fmt.Fprintf(&out, "kind: ConfigMap\nmetadata:\n  name: a%d-f%d\n", app, file)
	return []byte(out.String())
}

// BenchmarkWrite writes packs of small files: such that name their cluster in a line, and such that
// have little in common.
func BenchmarkWrite(b *testing.B) {
	for name, text := range map[string]func(c, a, f int) []byte{
		"noise": noise,
		"alike": func(c, a, f int) []byte { return manifest(c, fmt.Sprint("app", a, "-", f)) },
	} {
		b.Run(name, func(b *testing.B) {
			var objs []Object
			bytes := 0
			for c := range 200 {
				for a := range 10 {
					for f := range 10 {
						o := NewObject(plumbing.BlobObject, text(c, a, f))
						o.Path = fmt.Sprintf("clusters/c%d/app%d/r%d.yaml", c, a, f)
						objs, bytes = append(objs, o), bytes+len(o.Content)
					}
				}
			}
			b.SetBytes(int64(bytes))
			for b.Loop() {
				var n counter
				if err := Write(&n, objs); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(n)/float64(len(objs)), "B/object")
			}
		})
	}
}

type counter int64

// Write counts.
func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

var _ io.Writer = (*counter)(nil)
