package s3

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/sink/folder"
	"github.com/emco-orchestrator/emco/src/git"
)

// objectListing is what a folder holds: ETags by path.
type objectListing map[string]string

// revision is the digest of a listing, in the form in which Flux makes it of a bucket's keys.
func (l objectListing) revision(prefix string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(sum, "%s%s %s\n", prefix, name, l[name])
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// folderChange is what has to be done to a folder. All lists are in order of their paths.
type folderChange struct {
	content            map[string][]byte
	files, pointers    []string // to be written
	unpointed, removed []string // pointers and files to be removed
}

func (w folderChange) nothing() bool {
	return len(w.files)+len(w.pointers)+len(w.unpointed)+len(w.removed) == 0
}

// workOf compares what is there, of which same knows what was sent before, with what
// edits want.
func workOf(have objectListing, edits []git.Edit, root string, same func(name string, p etagPair) bool) folderChange {
	w := folderChange{content: wanted(edits, root)}
	for _, name := range slices.Sorted(maps.Keys(w.content)) {
		switch {
		case same(name, etagPair{have[name], etag(w.content[name])}):
		case points(name):
			w.pointers = append(w.pointers, name)
		default:
			w.files = append(w.files, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		_, stays := w.content[name]
		switch {
		case stays || !owned(name, edits):
		case points(name):
			w.unpointed = append(w.unpointed, name)
		default:
			w.removed = append(w.removed, name)
		}
	}
	return w
}

// wanted are the files that edits put into the folder, and the one that is always there.
func wanted(edits []git.Edit, root string) map[string][]byte {
	keep, text := folder.Keep(root)
	out := map[string][]byte{keep: text}
	for _, e := range edits {
		if e.File != nil {
			out[e.Path] = e.File
		}
		for name, content := range e.Dir {
			out[e.Path+"/"+name] = content
		}
	}
	return out
}

// owned reports whether a path is an edit's to remove.
func owned(name string, edits []git.Edit) bool {
	return slices.ContainsFunc(edits, func(e git.Edit) bool { return git.Inside(name, e.Path) })
}

// points reports whether a path is right in a cluster's directory, where nothing but what
// points at the rest is. The file that is always there points at nothing, and goes first.
func points(name string) bool {
	keep, _ := folder.Keep(path.Dir(name))
	return strings.Count(name, "/") == 2 && name != keep
}

// etag is what most servers give an object that was written in one piece.
func etag(content []byte) string {
	sum := md5.Sum(content)
	return hex.EncodeToString(sum[:])
}
