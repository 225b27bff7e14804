package git

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Limits that a path of an edit must keep.
const (
	maxPath    = 4096 // bytes of a path, as on Linux
	maxElement = 255  // bytes of one element, as on most file systems
)

// PathError names the path of an edit set that causes an error, so that a caller that merged
// several sets can leave out the one with that path.
type PathError struct {
	Path string
	Err  error
}

// Error returns "path: reason".
func (e *PathError) Error() string { return fmt.Sprintf("%q: %v", e.Path, e.Err) }

// Unwrap returns the reason.
func (e *PathError) Unwrap() error { return e.Err }

// BadPath returns an Invalid error that names path as the cause.
func BadPath(path, reason string) error {
	return errs.E(errs.Invalid, "edit", "", &PathError{Path: path, Err: errors.New(reason)})
}

// CheckPath returns Invalid unless path may be edited: relative, clean, slash-separated UTF-8
// without control characters or backslashes, and without elements that a Git client on any system
// could mistake for its own directory or that "git fsck" refuses (".git" in any case, "git~1", ".git"
// with trailing dots, blanks or streams, or with characters that file systems ignore; ".gitmodules"
// likewise).
func CheckPath(path string) error {
	if why := pathFault(path); why != "" {
		return BadPath(path, why)
	}
	return nil
}

func pathFault(path string) string {
	switch {
	case path == "":
		return "empty path"
	case len(path) > maxPath:
		return fmt.Sprintf("longer than %d bytes", maxPath)
	case !utf8.ValidString(path):
		return "not UTF-8"
	case strings.HasPrefix(path, "/"):
		return "not relative"
	case strings.ContainsRune(path, '\\'):
		return "holds a backslash"
	case strings.ContainsFunc(path, unicode.IsControl):
		return "holds a control character"
	}
	for element := range strings.SplitSeq(path, "/") {
		if why := elementFault(element); why != "" {
			return why
		}
	}
	return ""
}

func elementFault(element string) string {
	switch {
	case element == "":
		return "empty element"
	case element == "." || element == "..":
		return "not clean"
	case len(element) > maxElement:
		return fmt.Sprintf("element longer than %d bytes", maxElement)
	}
	if name := foldName(element); name == ".git" || name == "git~1" || name == ".gitmodules" || name == "gitmod~1" {
		return "belongs to Git"
	}
	return ""
}

// foldName returns a name as a lax file system reads it: lower case, no ignorable characters, cut
// at a stream, without trailing dots and blanks.
func foldName(element string) string {
	element, _, _ = strings.Cut(element, ":")
	element = strings.Map(func(r rune) rune {
		if ignorable(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, element)
	return strings.TrimRight(element, ". ")
}

// ignorable reports whether HFS+ ignores a code point when it compares names.
func ignorable(r rune) bool {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return true
	}
	return false
}

// CheckEdits returns Invalid, with the path that causes it, unless edits can be one commit: every
// path keeps CheckPath, no edit is both a file and a directory, no two edits overlap (one path
// equal to or inside another), and no directory holds a path as file and as directory.
func CheckEdits(edits []Edit) error {
	paths := make([]string, 0, len(edits))
	good := checkedDirs{}
	for _, e := range edits {
		if err := good.check(e); err != nil {
			return err
		}
		paths = append(paths, e.Path)
	}
	if path, above, ok := overlap(paths); ok {
		return BadPath(path, fmt.Sprintf("edited twice, also by %q", above))
	}
	return nil
}

// checkedDirs maps directories that passed, by the identity of their maps, to the length of their
// longest path: many clusters share a map.
type checkedDirs map[uintptr]int

// check checks one edit.
func (d checkedDirs) check(e Edit) error {
	if err := CheckPath(e.Path); err != nil {
		return err
	}
	if e.Dir == nil {
		return nil
	}
	if e.File != nil {
		return BadPath(e.Path, "both a file and a directory")
	}
	set := reflect.ValueOf(e.Dir).Pointer()
	longest, known := d[set]
	if known && len(e.Path)+1+longest <= maxPath {
		return nil
	}
	longest, err := checkDir(e)
	if err == nil {
		d[set] = longest
	}
	return err
}

// checkDir checks the files of a directory and returns the length of the longest path.
func checkDir(e Edit) (longest int, err error) {
	below := make([]string, 0, len(e.Dir))
	for rel := range e.Dir {
		if why := pathFault(rel); why != "" {
			return 0, BadPath(e.Path+"/"+rel, why)
		}
		if len(e.Path)+1+len(rel) > maxPath {
			return 0, BadPath(e.Path+"/"+rel, fmt.Sprintf("longer than %d bytes", maxPath))
		}
		longest, below = max(longest, len(rel)), append(below, rel)
	}
	if rel, above, ok := overlap(below); ok {
		return 0, BadPath(e.Path+"/"+rel, fmt.Sprintf("below the file %q", above))
	}
	return longest, nil
}

// overlap finds a path that equals another or is inside it. Comparing as if every
// path ended in a slash puts all that is inside a path right behind it.
func overlap(paths []string) (path, above string, found bool) {
	slices.SortFunc(paths, comparePaths)
	for i := 1; i < len(paths); i++ {
		if Inside(paths[i], paths[i-1]) {
			return paths[i], paths[i-1], true
		}
	}
	return "", "", false
}

// comparePaths orders paths by their elements.
func comparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return int(rank(a[i])) - int(rank(b[i]))
		}
	}
	return len(a) - len(b)
}

// rank puts the slash before every other byte.
func rank(c byte) uint16 {
	if c == '/' {
		return 0
	}
	return uint16(c) + 1
}

// Inside reports whether path equals dir or is below it.
func Inside(path, dir string) bool {
	return strings.HasPrefix(path, dir) && (len(path) == len(dir) || path[len(dir)] == '/')
}

// CheckBranch returns Invalid unless name can be a branch by the rules of "git check-ref-format
// --branch". A name that starts with "refs/" is refused since it could be read in two ways.
func CheckBranch(name string) error {
	if why := branchFault(name); why != "" {
		return errs.E(errs.Invalid, "branch", fmt.Sprintf("%q", name), errors.New(why))
	}
	return nil
}

func branchFault(name string) string {
	switch {
	case name == "" || len(name) > maxElement:
		return "empty or too long"
	case name == "@" || name == "HEAD" || strings.HasPrefix(name, "refs/"):
		return "not a branch name"
	case name[0] == '-' || strings.HasSuffix(name, "."):
		return "starts with a hyphen or ends with a dot"
	case strings.Contains(name, "..") || strings.Contains(name, "@{"):
		return `holds ".." or "@{"`
	case strings.ContainsAny(name, " ~^:?*[\\") || strings.ContainsFunc(name, unicode.IsControl):
		return "holds a character that Git refuses"
	case !utf8.ValidString(name):
		return "not UTF-8"
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == "" || element[0] == '.' || strings.HasSuffix(element, ".lock") {
			return `an element is empty, starts with a dot or ends with ".lock"`
		}
	}
	return ""
}
