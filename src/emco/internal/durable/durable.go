// Package durable makes files and folders survive a loss of power: a new name is only
// there for good when the folder that holds it has been synced.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// MakeDir creates a folder, closed to other users, if it is not there. The one above may
// be one that we can neither read nor sync, so it is synced only if it has a new name in it.
func MakeDir(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes new names in a folder survive.
func SyncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
