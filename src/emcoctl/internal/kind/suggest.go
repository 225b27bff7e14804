package kind

import (
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/nearest"
)

// Suggest returns the anchor that a user probably meant by one with a collection or an action
// that does not exist at its place. It returns false if all are known, or if an unknown one
// resembles none: the server may have more collections than this program knows.
func Suggest(path string) (string, bool) {
	path, query, asked := strings.Cut(path, "?")
	segments := strings.Split(path, "/")
	changed, collection := false, ""
	for i := 0; i < len(segments); i += width(collection) {
		names := Below(collection)
		if slices.Contains(names, segments[i]) {
			collection = collectionOf(collection, segments[i])
			continue
		}
		name, ok := nearest.To(segments[i], names)
		if !ok {
			break
		}
		segments[i], collection, changed = name, collectionOf(collection, name), true
	}
	path = strings.Join(segments, "/")
	if asked {
		path += "?" + query
	}
	return path, changed
}

// Nested returns the kind that a word names or resembles, if its documents are below others, so that the word is no anchor.
func Nested(word string) (Kind, bool) {
	k, ok := Named(word)
	if !ok {
		name, _ := nearest.To(word, collections())
		k, ok = Of(name)
	}
	return k, ok && !slices.Contains(k.Parents, "")
}

// collectionOf returns the collection that a segment below an item of another one stands for; the segment
// itself for actions.
func collectionOf(parent, segment string) string {
	if k, ok := below(parent, segment); ok {
		return k.Collection
	}
	return segment
}
