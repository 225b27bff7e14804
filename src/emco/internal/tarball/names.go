package tarball

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// seenPaths are the paths seen so far, including the directories above entries.
type seenPaths struct {
	depth   int
	role    map[string]pathRole
	written map[string]string // path in lower case and NFC to the path as written
}

// pathRole is how a path occurred.
type pathRole uint8

const (
	unseen   pathRole = iota
	implied           // a directory above an entry
	explicit          // a directory with an entry of its own
	file
)

func newSeenPaths(depth int) *seenPaths {
	return &seenPaths{depth: depth, role: map[string]pathRole{}, written: map[string]string{}}
}

// add checks an entry's path and returns its clean form. The root directory is "".
func (s *seenPaths) add(raw string, dir bool) (string, error) {
	name, err := cleaned(raw, dir)
	switch {
	case err != nil || name == "" && dir:
		return "", err
	case name == "":
		return "", errors.New("has no name")
	}
	if n := strings.Count(name, "/") + 1; n > s.depth {
		return "", above("is %d levels deep, more than %d", n, s.depth)
	}
	if err := s.parents(name); err != nil {
		return "", err
	}
	switch was := s.role[name]; {
	case was == file || was == explicit:
		return "", errors.New("stands twice in the archive")
	case was == implied && !dir:
		return "", errors.New("is a file, but other entries lie within it")
	}
	s.role[name] = file
	if dir {
		s.role[name] = explicit
	}
	return name, nil
}

// parents records the directories above name. It refuses directories that are files, and
// paths that differ from a seen one only in case or in the form of Unicode (NFC, NFD): some
// file systems cannot distinguish them.
func (s *seenPaths) parents(name string) error {
	for p := name; p != "."; p = path.Dir(p) {
		key := folded(norm.NFC.String(p))
		if old, ok := s.written[key]; ok && old != p {
			what := "in case"
			if folded(old) != folded(p) {
				what = "in the form of Unicode (NFC, NFD)"
			}
			return fmt.Errorf("differs from %q %s only", clip(old), what)
		}
		s.written[key] = p
		if p == name {
			continue
		}
		switch s.role[p] {
		case file:
			return fmt.Errorf("lies within %q, which is a file", clip(p))
		case unseen:
			s.role[p] = implied
		}
	}
	return nil
}

func folded(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// cleaned returns a path without "./" in front and "/" at the end.
func cleaned(raw string, dir bool) (string, error) {
	name := raw
	for strings.HasPrefix(name, "./") {
		name = strings.TrimPrefix(name, "./")
	}
	if dir {
		name = strings.TrimSuffix(name, "/")
	}
	if name == "" || name == "." {
		return "", nil
	}
	return name, local(name)
}

// local reports why name is not a clean relative path within its root.
func local(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("holds characters that cannot be printed")
	case strings.HasPrefix(name, "/") || len(name) > 1 && name[1] == ':':
		return errors.New("is an absolute path; use a relative one")
	case name == ".." || strings.HasPrefix(name, "../") || strings.Contains(name, "/../") || strings.HasSuffix(name, "/.."):
		return errors.New("leaves the archive by \"..\"")
	case strings.ContainsRune(name, '\\'):
		return errors.New("holds a backslash; use slashes")
	case path.Clean(name) != name:
		return fmt.Errorf("is not a clean path; write %q", clip(path.Clean(name)))
	}
	return nil
}
