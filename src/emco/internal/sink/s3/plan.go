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

// objectListing is the content of a folder: ETags by path.
type objectListing map[string]string

// revision returns the digest of a listing, as Flux computes it from a bucket's keys.
func (l objectListing) revision(prefix string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(sum, "%s%s %s\n", prefix, name, l[name])
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// folderChange is the changes of a folder. All lists are sorted by path.
type folderChange struct {
	content            map[string][]byte
	files, pointers    []string // to be written
	unpointed, removed []string // pointers and files to be removed
}

func (w folderChange) nothing() bool {
	return len(w.files)+len(w.pointers)+len(w.unpointed)+len(w.removed) == 0
}

// workOf compares a folder with the edits. same reports whether an object has a content.
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

// wanted returns the files that the edits write, and folder.Keep.
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

// owned reports whether the edits may remove a path.
func owned(name string, edits []git.Edit) bool {
	return slices.ContainsFunc(edits, func(e git.Edit) bool { return git.Inside(name, e.Path) })
}

// points reports whether a path is a pointer: a file directly in the cluster's directory,
// except for folder.Keep.
func points(name string) bool {
	keep, _ := folder.Keep(path.Dir(name))
	return strings.Count(name, "/") == 2 && name != keep
}

// etag returns the ETag that most servers give to an object that was written in one piece.
func etag(content []byte) string {
	sum := md5.Sum(content)
	return hex.EncodeToString(sum[:])
}
