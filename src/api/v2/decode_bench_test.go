package v2_test

import (
	"fmt"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// BenchmarkDecode reads a common document, and 1 MB of the smallest members.
func BenchmarkDecode(b *testing.B) {
	selectors := strings.TrimSuffix(strings.Repeat(`{"clusterProvider":"edge","clusterLabel":"north"},`, 1000), ",")
	var tiny strings.Builder
	for i := range 90_000 {
		fmt.Fprintf(&tiny, `"%x":1,`, i)
	}
	for name, body := range map[string]string{
		"common":   `{"metadata":{"name":"a","description":"d"},"spec":{"app":"web","intent":{"anyOf":[{"clusterProvider":"edge","clusterLabel":"north"}]}}}`,
		"selected": `{"metadata":{"name":"a"},"spec":{"app":"web","intent":{"anyOf":[` + selectors + `]}}}`,
		"tiny":     `{"metadata":{"name":"a"},"x":{` + strings.TrimSuffix(tiny.String(), ",") + `}}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v2.Decode[v2.AppIntent]([]byte(body), v2.Lenient); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
