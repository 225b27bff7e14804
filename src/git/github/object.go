package github

import (
	"cmp"
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

// Git's modes.
const (
	modeTree = 0o040000
	modeFile = 0o100644
	modeLink = 0o120000
	modeSub  = 0o160000
	modeType = 0o170000
)

// oid is the name of an object; the zero one is none.
type oid [sha1.Size]byte

// emptyTree is the tree of no entries, which no other tree holds.
var emptyTree = tree(nil).oid()

func parseOID(text git.Hash) (id oid, err error) {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(id) || strings.ToLower(string(text)) != string(text) {
		return id, errs.E(errs.Invalid, "object", "", errors.New("not the name of an object: 40 hexadecimal digits"))
	}
	return oid(raw), nil
}

func (o oid) String() string { return hex.EncodeToString(o[:]) }

// nameOf returns the name of an object.
func nameOf(kind string, content []byte) oid {
	sum := sha1.New()
	fmt.Fprintf(sum, "%s %d\x00", kind, len(content))
	sum.Write(content)
	return oid(sum.Sum(nil))
}

// entry is one line of a tree.
type entry struct {
	name string
	mode uint32
	id   oid
}

func (e entry) isTree() bool { return e.mode&modeType == modeTree }

// isFile says whether an entry is a regular file; the zero entry is not.
func (e entry) isFile() bool { return e.mode&modeType == modeFile&modeType }

// isForeign says whether an entry leads out of the tree: a symbolic link or a submodule.
func (e entry) isForeign() bool { return e.mode&modeType == modeLink || e.mode&modeType == modeSub }

// is says whether two entries of the same name are the same.
func (e entry) is(other entry) bool { return e.id == other.id && e.mode == other.mode }

// key is what Git sorts by: directories as if their names ended in a slash.
func (e entry) key() string {
	if e.isTree() {
		return e.name + "/"
	}
	return e.name
}

// tree is a directory, sorted as Git sorts it. What is in it never changes.
type tree []entry

// sorted puts entries in Git's order.
func sorted(entries []entry) tree {
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.key(), b.key()) })
	return entries
}

// oid returns the name of a tree.
func (t tree) oid() oid {
	var raw []byte
	for _, e := range t {
		raw = strconv.AppendUint(raw, uint64(e.mode), 8)
		raw = append(append(append(raw, ' '), e.name...), 0)
		raw = append(raw, e.id[:]...)
	}
	return nameOf("tree", raw)
}

// find returns the entry of a name, the zero one if there is none.
func (t tree) find(name string) entry {
	for _, key := range []string{name, name + "/"} {
		i, ok := slices.BinarySearchFunc(t, key, func(e entry, key string) int { return cmp.Compare(e.key(), key) })
		if ok && t[i].name == name {
			return t[i]
		}
	}
	return entry{}
}

// size is about how many bytes of memory a tree takes.
func (t tree) size() int64 {
	n := int64(96)
	for _, e := range t {
		n += int64(48 + len(e.name))
	}
	return n
}
