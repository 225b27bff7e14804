// Package tarball reads the gzip-compressed tars that users upload, and checks the charts and profiles in them. It does
// not trust them: it writes no entry to a disk, every size has a limit, and one bad entry makes the whole archive
// invalid.
package tarball

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Limits bound the size of an archive.
type Limits struct {
	Compressed int64 // bytes as uploaded
	Expanded   int64 // bytes of the tar within
	Entries    int   // files and directories
	Ratio      int64 // ratio of expanded to compressed bytes; small archives may exceed it
	Depth      int   // elements of a path
}

// Default returns the limits for packages and profiles.
func Default() Limits {
	return Limits{Compressed: 20 << 20, Expanded: 100 << 20, Entries: 10_000, Ratio: 100, Depth: 20}
}

// format is upstream's text for a file that is not an archive of regular files (422 there).
const format = "Error in file format"

// Tree is the content of an archive: file contents by clean, relative path. It omits
// directories without files.
type Tree map[string][]byte

// Names returns the paths, sorted.
func (t Tree) Names() []string { return slices.Sorted(maps.Keys(t)) }

// Check reads a whole archive and reports why it cannot be accepted. The text begins with
// upstream's "Error in file format" and names the entry. The kind is TooLarge above a limit,
// otherwise Malformed; errors of r keep theirs.
//
// Entries must be regular files or directories: no links, devices, sparse files or PAX
// globals. Paths must be relative and clean, but may begin with "./"; no two are equal or
// differ in case only.
func Check(r io.Reader, l Limits) error {
	return walk(r, l, func(string, io.Reader) error { return nil })
}

// Files reads an archive into memory under the same rules as Check.
func Files(r io.Reader, l Limits) (Tree, error) {
	t := Tree{}
	err := walk(r, l, func(name string, content io.Reader) error {
		data, err := io.ReadAll(content)
		t[name] = data
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// walk calls visit with each file. The archive is valid only if walk returns nil. Errors of
// r are returned unchanged: they do not concern the archive.
func walk(r io.Reader, l Limits, visit func(string, io.Reader) error) error {
	in := &countingReader{r: r, most: l.Compressed}
	name, err := entries(in, l, visit)
	if in.err != nil {
		return in.err
	}
	return refuse(name, err)
}

// entries calls visit with each file. On error it returns the name of the bad entry, if
// any.
func entries(in *countingReader, l Limits, visit func(string, io.Reader) error) (name string, err error) {
	s, err := open(in, l)
	if err != nil {
		return "", err
	}
	files, seen := tar.NewReader(s), newSeenPaths(l.Depth)
	for n := 0; ; n++ {
		h, err := files.Next()
		switch {
		case errors.Is(err, io.EOF) && n == 0:
			return "", errors.New("the archive is empty")
		case errors.Is(err, io.EOF):
			return "", s.finish()
		case err != nil:
			return "", fmt.Errorf("after %d entries: %w", n, err)
		case n >= l.Entries:
			return h.Name, above("more than %d entries", l.Entries)
		}
		if err := entry(h, files, seen, visit); err != nil {
			return h.Name, err
		}
	}
}

// entry checks one entry and passes a file to visit.
func entry(h *tar.Header, content io.Reader, seen *seenPaths, visit func(string, io.Reader) error) error {
	dir, err := kind(h)
	if err != nil {
		return err
	}
	name, err := seen.add(h.Name, dir)
	if err != nil || dir {
		return err
	}
	return visit(name, content)
}

// kind reports whether an entry is a directory. It refuses everything but directories and
// regular files.
func kind(h *tar.Header) (dir bool, err error) {
	switch h.Typeflag {
	case tar.TypeDir:
		return true, nil
	case tar.TypeReg:
		if h.Mode&0o6000 != 0 {
			return false, errors.New("is setuid or setgid; clear its mode bits")
		}
		return false, nil
	case tar.TypeSymlink, tar.TypeLink:
		return false, errors.New("is a link; store the file itself")
	case tar.TypeXGlobalHeader:
		return false, errors.New("is a PAX global header; pack with \"tar -czf\", not with git archive")
	}
	return false, errors.New("is neither a regular file nor a directory")
}

// limitError is the error for exceeding a limit.
type limitError string

func (e limitError) Error() string { return string(e) }

func above(text string, args ...any) error { return limitError(fmt.Sprintf(text, args...)) }

// refuse makes err readable for users; nil stays nil.
func refuse(name string, err error) error {
	if err == nil {
		return nil
	}
	k := errs.Malformed
	if _, ok := errors.AsType[limitError](err); ok {
		k = errs.TooLarge
	}
	if name == "" {
		return errs.E(k, "", "", fmt.Errorf("%s: %w", format, err))
	}
	return errs.E(k, "", "", fmt.Errorf("%s: entry %q: %w", format, clip(name), err))
}

// clip bounds a name in a message.
func clip(name string) string {
	const most = 200
	if len(name) > most {
		return name[:most] + "…"
	}
	return name
}
