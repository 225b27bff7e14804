package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// creation finds the calls of the APIs of Git hosts that make repositories, or change who sees them.
var creation = regexp.MustCompile(`Repositories\.(Create|Edit)\(|Create(Project|Fork)|EditProject|/user/repos|orgs/[^"]*repos"`)

// EMCO writes to repositories that exist. It makes none, and makes none public.
func TestE7NoRepositoryIsMade(t *testing.T) {
	t.Parallel()
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "gittest") {
			return err
		}
		text, err := os.ReadFile(path)
		files++
		if found := creation.Find(text); found != nil {
			t.Errorf("%s calls %q", path, found)
		}
		return err
	})
	if err != nil || files < 50 {
		t.Errorf("%d files, %v", files, err)
	}
}
