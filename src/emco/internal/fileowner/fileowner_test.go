package fileowner_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/fileowner"
)

// A refusal names the owner of the nearest path that can be seen; other errors are not changed.
func TestRefusalsNameOwnerAndUser(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o710); err != nil {
		t.Fatal(err)
	}
	uid := fmt.Sprintf("uid %d", os.Geteuid())
	for _, path := range []string{folder, filepath.Join(folder, "a", "b")} {
		err := fileowner.Explain(&fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}, path)
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), folder+" (drwx--x---) belongs to ") || strings.Count(err.Error(), uid) != 2 {
			t.Errorf("%s: got %v", path, err)
		}
	}
	for _, err := range []error{nil, fs.ErrNotExist} {
		if got := fileowner.Explain(err, folder); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}
