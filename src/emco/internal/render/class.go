package render

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Class returns the digest of everything that a rendering depends on, by a renderer of an
// edition. Two requests of one class render equal objects, so one rendering serves all
// their clusters and later revisions. The order of overrides matters, because a later one
// wins; the order of labels does not.
func Class(edition string, req Request) manifest.Digest {
	var text []byte
	add := func(parts ...string) {
		text = fmt.Appendf(text, "%d[", len(parts))
		for _, p := range parts { // with the length, so that different lists have different texts
			text = fmt.Appendf(text, "%d:%s", len(p), p)
		}
	}
	add(edition, req.App, string(req.Package.Digest), string(req.Profile.Digest), req.Release, req.Namespace)
	var overrides, labels []string
	for _, o := range req.Overrides {
		overrides = append(overrides, o.Key, o.Value)
	}
	for _, l := range slices.SortedFunc(slices.Values(req.Labels), compareLabels) {
		labels = append(labels, l.Key, l.Value)
	}
	add(overrides...)
	add(labels...)
	return manifest.DigestOf(text)
}

func compareLabels(a, b Label) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value))
}
