package tree

import (
	"bytes"
	"crypto/sha1" // Git's names of objects
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// Git's modes of entries.
const (
	ModeTree = 0o040000
	ModeFile = 0o100644
	modeLink = 0o120000
	modeSub  = 0o160000
	modeType = 0o170000
)

// MaxDepth bounds how deep trees may nest, so that a hostile server cannot exhaust the stack.
const MaxDepth = 256

// ID names an object by its SHA-1; the zero one is none.
type ID [sha1.Size]byte

// Empty is the tree of no entries, which no other tree holds.
var Empty = ObjectID(Trees, nil)

// Kind is a kind of objects, as Git calls it.
type Kind string

// The kinds of objects that edits make.
const (
	Trees Kind = "tree"
	Blobs Kind = "blob"
)

// ParseID reads the name of an object; Invalid unless it is 40 hexadecimal digits in
// lower case.
func ParseID(text git.Hash) (id ID, err error) {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(id) || strings.ToLower(string(text)) != string(text) {
		return id, errs.E(errs.Invalid, "object", "", errors.New("not the name of an object: 40 hexadecimal digits"))
	}
	return ID(raw), nil
}

// ObjectID returns the name of an object: the hash of its kind, its size and its content.
func ObjectID(kind Kind, content []byte) (id ID) {
	sum := sha1.New()
	head := append(append(make([]byte, 0, 32), kind...), ' ')
	sum.Write(append(strconv.AppendInt(head, int64(len(content)), 10), 0))
	sum.Write(content)
	sum.Sum(id[:0])
	return id
}

// String returns the name in hexadecimal.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Hash returns the name as hosts have it.
func (id ID) Hash() git.Hash { return git.Hash(id.String()) }

// IsZero reports whether it names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// Entry is one line of a tree; the zero one is nothing.
type Entry struct {
	Name string
	Mode uint32
	ID   ID
}

// IsTree reports whether an entry is a directory.
func (e Entry) IsTree() bool { return e.Mode&modeType == ModeTree }

// IsFile reports whether an entry is a regular file.
func (e Entry) IsFile() bool { return e.Mode&modeType == ModeFile&modeType }

// IsSubmodule reports whether an entry is the commit of another repository.
func (e Entry) IsSubmodule() bool { return e.Mode&modeType == modeSub }

// leadsOut reports whether an entry leads out of the tree: a symbolic link or a submodule.
func (e Entry) leadsOut() bool { return e.Mode&modeType == modeLink || e.IsSubmodule() }

// Is reports whether two entries of one name have the same mode and object.
func (e Entry) Is(other Entry) bool { return e.ID == other.ID && e.Mode == other.Mode }

// Below returns the tree of an entry, Empty if it is none.
func (e Entry) Below() ID {
	if e.IsTree() {
		return e.ID
	}
	return Empty
}

// dir is a directory, or nothing if it would be empty.
func dir(id ID) Entry {
	if id == Empty {
		return Entry{}
	}
	return Entry{Mode: ModeTree, ID: id}
}

// Tree is what a directory holds, in Git's order.
type Tree []Entry

// Find returns the entry with a name, the zero one without any.
func (t Tree) Find(name string) Entry {
	for _, mode := range []uint32{ModeFile, ModeTree} {
		i, ok := slices.BinarySearchFunc(t, Entry{Name: name, Mode: mode}, compare)
		if ok && t[i].Name == name {
			return t[i]
		}
	}
	return Entry{}
}

// Sort puts entries in Git's order: a directory as if its name ended in a slash.
func Sort(entries []Entry) Tree {
	slices.SortFunc(entries, compare)
	return entries
}

func compare(a, b Entry) int {
	n := min(len(a.Name), len(b.Name))
	if c := strings.Compare(a.Name[:n], b.Name[:n]); c != 0 {
		return c
	}
	return int(a.next(n)) - int(b.next(n))
}

// next is the byte at position n of the name that Git sorts by.
func (e Entry) next(n int) byte {
	switch {
	case n < len(e.Name):
		return e.Name[n]
	case n == len(e.Name) && e.IsTree():
		return '/'
	}
	return 0
}

// Encode returns the tree object, for entries in Git's order.
func (t Tree) Encode() []byte {
	size := 0
	for _, e := range t {
		size += len(e.Name) + 28
	}
	raw := make([]byte, 0, size)
	for _, e := range t {
		raw = strconv.AppendUint(raw, uint64(e.Mode), 8)
		raw = append(raw, ' ')
		raw = append(raw, e.Name...)
		raw = append(raw, 0)
		raw = append(raw, e.ID[:]...)
	}
	return raw
}

// ID returns the name of a tree.
func (t Tree) ID() ID { return ObjectID(Trees, t.Encode()) }

// Decode splits a tree object into entries, which do not share raw's memory. Malformed content is
// Unavailable: the server may send the object whole the next time.
func Decode(raw []byte) (Tree, error) {
	entries := make(Tree, 0, len(raw)/40+1)
	for len(raw) > 0 {
		mode, rest, ok := bytes.Cut(raw, []byte{' '})
		name, tail, ok2 := bytes.Cut(rest, []byte{0})
		if !ok || !ok2 || len(mode) > 7 || len(tail) < len(ID{}) {
			return nil, malformed("a tree object is malformed")
		}
		m, err := strconv.ParseUint(string(mode), 8, 32)
		if err != nil || !validName(name) {
			return nil, malformed("a tree object is malformed")
		}
		entries = append(entries, Entry{Name: string(name), Mode: uint32(m), ID: ID(tail[:len(ID{})])})
		raw = tail[len(ID{}):]
	}
	if !slices.IsSortedFunc(entries, compare) { // no Git writes such
		Sort(entries)
	}
	return entries, nil
}

// validName refuses names that would change the meaning of a path.
func validName(name []byte) bool {
	return len(name) > 0 && !bytes.ContainsRune(name, '/') && string(name) != "." && string(name) != ".."
}

func malformed(what string) error { return errs.E(errs.Unavailable, "read", "", errors.New(what)) }

// Missing is the error of a tree that should exist.
func Missing(id ID) error {
	return errs.E(errs.Unavailable, "read", "", fmt.Errorf("tree %s is missing", id))
}

// Join returns the path of a name below another path, which may be empty.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "/" + name
}
