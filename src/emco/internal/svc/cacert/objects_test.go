package cacert

import (
	"fmt"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Who chooses the names of documents freely must not find the issuer of another tenant: among so many names,
// some have the same first 32 bits of their digests.
func TestIssuersOfAllTenantsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for i := range 200_000 {
		key := fmt.Sprintf("projects/p%d/ca-certs/mesh", i)
		name := issuerName(store.Key(key), "mesh-of-all-the-shops-in-the-northern-part", "cloud")
		if other := seen[name]; other != "" {
			t.Fatalf("%s and %s share the issuer %s", key, other, name)
		}
		if seen[name] = key; len(name) > 63 {
			t.Fatalf("the name %s is too long", name)
		}
	}
}
