package revision

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
)

// before draws up to 90 placements, and after draws what is left of them, and some more.
func before(t *rapid.T) map[appcontext.PairKey]bool {
	out := map[appcontext.PairKey]bool{}
	for range rapid.IntRange(0, 90).Draw(t, "placements") {
		app, cluster := fmt.Sprint("app", len(out)%3), fmt.Sprint("p+", len(out)/3)
		out[appcontext.PairKey{Cluster: v2.ClusterKey(cluster), Deployment: "7", App: app}] = true
	}
	return out
}

func after(t *rapid.T, now map[appcontext.PairKey]bool) map[appcontext.PairKey]bool {
	out := map[appcontext.PairKey]bool{}
	lost := rapid.IntRange(0, len(now)).Draw(t, "lost")
	for k := range now {
		if lost--; lost < 0 {
			out[k] = true
		}
	}
	for i := range rapid.IntRange(0, 30).Draw(t, "more") {
		out[appcontext.PairKey{Cluster: v2.ClusterKey(fmt.Sprint("p+", i)), Deployment: "7", App: "new"}] = true
	}
	return out
}

// placementsOf returns the placements of pairs, all with one bundle.
func placementsOf(pairs map[appcontext.PairKey]bool, bundle appcontext.Digest) []appcontext.Placement {
	clusters := map[string][]v2.ClusterKey{} // by app
	for k := range pairs {
		clusters[k.App] = append(clusters[k.App], k.Cluster)
	}
	var all []appPlacement
	for app, names := range clusters {
		slices.Sort(names)
		all = append(all, appPlacement{app, bundle, names})
	}
	return placementsByCluster(all)
}

// Users confirm a removal of many placements, whatever the numbers are.
func TestH61LargeRemovalsAreConfirmed(t *testing.T) {
	t.Parallel()
	contexts := contexttest.New(t)
	b := Builder{Contexts: contexts, Blobs: contexts}
	head, err := contexts.ChangeHead(t.Context(), appcontext.Head{}, appcontext.Head{UID: "7"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		now := before(t)
		next := after(t, now)
		if head, err = contexts.Publish(t.Context(), head, appcontext.Revision{Number: head.LastRev + 1}, slices.Values(placementsOf(now, "d"))); err != nil {
			t.Fatal(err)
		}
		text, err := b.NeedsConfirmation(t.Context(), head, placementsOf(next, ""))
		if err != nil {
			t.Fatal(err)
		}
		stay := 0
		for k := range now {
			if next[k] {
				stay++
			}
		}
		// As docs/lifecycle.md has it: more than 20, or more than 10 percent of 20 or more.
		lost, all := len(now)-stay, len(now)
		want := lost >= 21 || all >= 20 && float64(lost)/float64(all) > 0.1
		if got := text != ""; got != want {
			t.Fatalf("%d of %d are lost: asked for a confirmation %v, want %v (%s)", lost, all, got, want, text)
		}
		if text != "" && !strings.Contains(text, fmt.Sprintf("remove %d of %d placements", lost, all)) {
			t.Fatalf("%d of %d are lost: got %q", lost, all, text)
		}
		gone := head
		gone.Gone = true
		if text, err := b.NeedsConfirmation(t.Context(), gone, nil); err != nil || text != "" {
			t.Fatalf("what is terminated needs no confirmation: got %q, %v", text, err)
		}
	})
}
