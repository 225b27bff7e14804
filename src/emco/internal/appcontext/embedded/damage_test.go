package embedded_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
)

const damagedWrites = 700 // several snapshots of the log

// each changes every file that a pattern below etcd's folder names.
func each(pattern string, change func(path string, size int64) error) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(dir, "data", "member", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s, %v", pattern, err)
		}
		for _, file := range files {
			info, err := os.Stat(file)
			if err == nil {
				err = change(file, info.Size())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func remove(path string, _ int64) error { return os.RemoveAll(path) }

func empty(path string, _ int64) error { return os.Truncate(path, 0) }

// cut leaves a part of a file, in thousandths.
func cut(part int64) func(path string, size int64) error {
	return func(path string, size int64) error { return os.Truncate(path, size*part/1000) }
}

// A start with damaged or missing files fails soon and names file and way back, or it has everything
// that was written. It never hangs.
func TestF65DamagedFilesAreNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		names  string // in the error; empty if the start may also succeed with all data
	}{
		"young, database deleted": {each("snap/db", remove), ""},
		"log deleted":             {each("wal/*.wal", remove), "member/wal"},
		"log folder deleted":      {each("wal", remove), "member/wal"},
		"log emptied":             {each("wal/*.wal", empty), "member/wal"},
		"log cut early":           {each("wal/*.wal", cut(1)), "member/wal"},
		"log cut late":            {each("wal/*.wal", func(path string, _ int64) error { return cutWritten(path) }), "member/wal"},
		"database deleted":        {each("snap/db", remove), "member/snap/db"},
		"database emptied":        {each("snap/db", empty), "member/snap/db"},
		"database cut early":      {each("snap/db", cut(100)), "member/snap/db"},
		"database cut":            {each("snap/db", cut(500)), "member/snap/db"},
		"database cut late":       {each("snap/db", cut(990)), "member/snap/db"},
		"database overwritten":    {each("snap/db", overwriteLeaf), "member/snap/db"},
		"database with odd pages": {each("snap/db", misdirectBranch), "member/snap/db"},
		"snapshots deleted":       {each("snap/*.snap", remove), ""},
		"all of it but log":       {each("snap", remove), "member/snap/db"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			server := start(t, embedded.Options{Dir: dir, NoFsync: true})
			writes := damagedWrites
			if strings.HasPrefix(name, "young") {
				writes = 50 // no snapshot
			}
			for n := range writes {
				if _, err := server.Client().Put(t.Context(), fmt.Sprint("key", n), strings.Repeat("x", 100)); err != nil {
					t.Fatal(err)
				}
			}
			if err := server.Close(); err != nil {
				t.Fatal(err)
			}
			c.damage(t, dir)
			began := time.Now()
			out, err := counting(t, dir).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the start took %s", took)
			}
			text := string(out)
			whole := c.names == "" && strings.Contains(text, fmt.Sprintf("holds %d keys", writes))
			named := strings.Contains(text, filepath.Join(dir, "data", c.names)) && strings.Contains(text, "restore the whole folder from a backup")
			if !whole && !named {
				t.Errorf("the output is %s", text)
			}
		})
	}
}

// Of a page of a database: its number, its flags and the number of its elements begin it.
const (
	pageSize   = 4096
	flagsAt    = 8
	countAt    = 10
	elementsAt = 16
	branchPage = 1
	leafPage   = 2
)

// overwriteLeaf fills the largest leaf of a database with noise.
func overwriteLeaf(path string, size int64) error {
	return changePage(path, size, leafPage, func(page []byte) { copy(page, etcdtest.Noise(pageSize, 1)) })
}

// misdirectBranch has a branch of a database name a page far behind the end of the file.
func misdirectBranch(path string, size int64) error {
	return changePage(path, size, branchPage, func(page []byte) { page[elementsAt+8+5] = 1 })
}

// changePage changes the page in use that has most elements, of those with flags: others are free.
func changePage(path string, size int64, flags byte, change func(page []byte)) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var found []byte
	most := uint16(0)
	for at := int64(2 * pageSize); at+pageSize <= size; at += pageSize {
		page := content[at : at+pageSize]
		if n := binary.LittleEndian.Uint16(page[countAt:]); page[flagsAt] == flags && n > most {
			found, most = page, n
		}
	}
	if found == nil {
		return fmt.Errorf("no page has the flags %d", flags)
	}
	change(found)
	return os.WriteFile(path, content, 0o600)
}

// cutWritten cuts a log in the middle of its entries.
func cutWritten(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, int64(len(strings.TrimRight(string(content), "\x00"))*9/10))
}
