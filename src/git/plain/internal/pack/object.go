// Package pack writes and reads packs, the streams of objects that Git sends and receives. It holds
// no pack as a whole: what it needs at a time is bounded by its runs and limits.
package pack

import (
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/git/tree"
)

// Object is a Git object with its name.
type Object struct {
	Kind    plumbing.ObjectType
	ID      plumbing.Hash
	Content []byte
	Path    string // of a file: one of its paths. Files whose paths end alike are likely alike
}

// NewObject names an object by its content.
func NewObject(kind plumbing.ObjectType, content []byte) Object {
	return Object{Kind: kind, ID: plumbing.Hash(tree.ObjectID(tree.Kind(kind.String()), content)), Content: content}
}
