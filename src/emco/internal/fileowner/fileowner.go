// Package fileowner explains errors about permissions of files: it names who owns the file, and who runs the program.
package fileowner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// Explain adds to a refusal of the system why this user may not use a path: the owner and the mode of the path, or of the
// nearest folder above it that this user can look at. Other errors stay as they are.
func Explain(err error, path string) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	info, seen := nearest(path)
	if info == nil {
		return err
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return err
	}
	return fmt.Errorf("%w: %s (%s) belongs to %s, and this process runs as %s", err, seen, info.Mode(), name(int(owner.Uid)), name(os.Geteuid()))
}

// nearest returns the path, or the nearest folder above it that can be looked at; nil if there is none.
func nearest(path string) (fs.FileInfo, string) {
	for path = filepath.Clean(path); ; path = filepath.Dir(path) {
		if info, err := os.Stat(path); err == nil {
			return info, path
		}
		if path == filepath.Dir(path) {
			return nil, ""
		}
	}
}

// name describes a user: "alice (uid 1000)".
func name(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username + " (uid " + id + ")"
	}
	return "uid " + id
}
