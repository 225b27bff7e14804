// Package durable makes files and folders survive a loss of power: a new name survives only
// when its folder was synced.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// MakeDir creates a folder, closed to other users, if it does not exist. The parent may not
// allow us to read or sync it, so it is synced only if it has a new name.
func MakeDir(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes new names in a folder survive a loss of power.
func SyncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
