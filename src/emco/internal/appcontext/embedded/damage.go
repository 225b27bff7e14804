package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
)

// wayBack ends the errors about damaged files.
const wayBack = "restore the whole folder from a backup, or move it away to start with nothing; EMCO then no longer knows what runs on the clusters"

// checkFiles compares etcd's log with its database. Every write is in the log before it is in the
// database, so a log that ends before the database was lost or cut, and with it perhaps
// answered writes. etcd does not notice: it hangs until the log has its former length. A torn last
// record is no damage, a crash leaves it; etcd removes it.
func checkFiles(log *zap.Logger, data string) (err error) {
	db, dir := filepath.Join(data, "member", "snap", "db"), filepath.Join(data, "member", "wal")
	reading := db
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a damaged number of a page leads outside of the file
	defer func() {                                           // both libraries panic about some damages
		if p := recover(); p != nil {
			err = damaged(reading, fmt.Errorf("%v", p))
		}
	}()
	applied, err := appliedIndex(db)
	if err != nil {
		return damaged(db, err)
	}
	if reading = dir; !wal.Exist(dir) {
		if applied == 0 {
			return nil // the first start
		}
		return damaged(dir, errors.New("the log is missing"))
	}
	last, snapshot, err := lastIndex(log, dir)
	switch {
	case err != nil:
		return damaged(dir, err)
	case applied == 0 && snapshot > 0:
		return damaged(db, fmt.Errorf("it is missing or empty, and the log begins after entry %d", snapshot))
	case last < applied:
		return damaged(dir, fmt.Errorf("the log ends at entry %d, and the database at %d: the end of the log is lost", last, applied))
	}
	return nil
}

func damaged(path string, err error) error {
	return fmt.Errorf("%s is damaged: %w; %s", path, err, wayBack)
}

// appliedIndex returns the last log entry that the database contains; 0 if there is no database. A
// database whose file lacks pages at its end is an error: reading them would end the process. It also
// checks all pages in use.
func appliedIndex(path string) (index uint64, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockPatience})
	if err != nil {
		return 0, err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		file, err := os.Stat(path)
		if err != nil {
			return err
		}
		if file.Size() < tx.Size() {
			return fmt.Errorf("its end is lost: the file has %d bytes of %d", file.Size(), tx.Size())
		}
		if err := checkPages(tx); err != nil {
			return err
		}
		meta := tx.Bucket(schema.Meta.Name())
		if meta == nil {
			return nil // a start ended before its first write
		}
		if v := meta.Get(schema.MetaConsistentIndexKeyName); len(v) == 8 {
			index = binary.BigEndian.Uint64(v)
		}
		return nil
	})
	return index, errors.Join(err, db.Close())
}

// checkPages visits all pages in use, and wants the keys in order. It panics at a page that is damaged. etcd visits them too
// when it starts, so this reads nothing more from the disk; but etcd does so in a goroutine of its own, whose panic nobody
// can recover.
func checkPages(tx *bbolt.Tx) error {
	return tx.ForEach(func(name []byte, bucket *bbolt.Bucket) error {
		var last []byte
		return bucket.ForEach(func(key, _ []byte) error {
			if last != nil && bytes.Compare(last, key) >= 0 {
				return fmt.Errorf("keys of its bucket %q are not in order", name)
			}
			last = key
			return nil
		})
	})
}

// lastIndex returns the last entry of the log, and that of its newest snapshot, after which etcd reads
// the log.
func lastIndex(log *zap.Logger, dir string) (last, snapshot uint64, err error) {
	snapshots, err := wal.ValidSnapshotEntries(log, dir)
	if err != nil {
		return 0, 0, err
	}
	newest := &walpb.Snapshot{}
	if n := len(snapshots); n > 0 {
		newest = snapshots[n-1]
	}
	w, err := wal.OpenForRead(log, dir, newest)
	if err != nil {
		return 0, 0, err
	}
	_, _, entries, err := w.ReadAll() // closes the files that it read
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	last = newest.GetIndex()
	if n := len(entries); n > 0 {
		last = max(last, entries[n-1].GetIndex())
	}
	return last, newest.GetIndex(), err
}
