package plain_test

import (
	"fmt"
	"testing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// ownEdits are what clusters hold that have nothing in common: apps of files, for each.
func ownEdits(first, last, apps, files int, version string) []git.Edit {
	var edits []git.Edit
	for c := first; c < last; c++ {
		dir := map[string][]byte{}
		for a := range apps {
			for f := range files {
				dir[fmt.Sprintf("app/a%d/f%d.yaml", a, f)] = fmt.Appendf(nil, "cluster: %d\napp: %d\nfile: %d\nversion: %s\n", c, a, f, version)
			}
		}
		edits = append(edits, git.Edit{Path: fmt.Sprintf("clusters/p+c%05d/context/1", c), Dir: dir})
	}
	return edits
}

// BenchmarkOneClusterOfTenThousand changes one cluster of a fleet, on one branch, in shards of
// a thousand, and in shards with a branch for each cluster.
func BenchmarkOneClusterOfTenThousand(b *testing.B) {
	const fleet = 10_000
	for _, mode := range []struct {
		name  string
		size  int
		views bool
	}{{"branch", fleet, false}, {"shard", 1000, false}, {"cluster", 1000, true}} {
		b.Run(mode.name, func(b *testing.B) {
			bare, err := gittest.Init(b.Context(), b.TempDir()+"/r.git", "main")
			if err != nil {
				b.Fatal(err)
			}
			host, repo := plain.New(plain.Options{AllowFile: true}), git.Repo{URL: "file://" + bare.Dir}
			heads := map[string]git.Hash{}
			commit := func(first, last int, version string) {
				branch := fmt.Sprintf("main-s%03d", first/mode.size)
				var views []git.DerivedBranch
				for c := first; c < last && mode.views && c < 5000; c++ { // a repository takes some 5,000 branches
					name := fmt.Sprintf("clusters/p+c%05d", c)
					views = append(views, git.DerivedBranch{Branch: name, Dir: name})
				}
				shown, err := host.CommitDerived(b.Context(), repo, git.DerivedUpdate{Branch: branch, Parent: heads[branch], Edits: ownEdits(first, last, 2, 5, version), Derived: views, Message: git.Message{Title: "t"}})
				if err != nil {
					b.Fatal(err)
				}
				heads[branch] = shown.Commit
			}
			for first := 0; first < fleet; first += 1000 {
				commit(first, first+1000, "1")
			}
			if _, err := bare.Git(b.Context(), "", "gc", "-q"); err != nil { // as servers do now and then
				b.Fatal(err)
			}
			n := 0
			for b.Loop() {
				n++
				commit(4321, 4322, fmt.Sprint("v", n))
			}
		})
	}
}
