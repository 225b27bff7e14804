package git_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
)

func TestReadCommitTellsWhoWhenAndWhetherItIsSigned(t *testing.T) {
	t.Parallel()
	const head = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor Ana Lima <ana@example.org> 1700000000 +0100\n"
	at := time.Date(2023, 11, 14, 22, 15, 0, 0, time.UTC)
	for _, tt := range []struct {
		name, object string
		want         git.Commit
	}{
		{"plain", head + "committer EMCO <emco@localhost> 1700000100 +0000\n\ntitle\n", git.Commit{When: at, Author: "Ana Lima <ana@example.org>"}},
		{"signed", head + "committer EMCO <emco@localhost> 1700000100 +0000\ngpgsig -----BEGIN SSH SIGNATURE-----\n abc\n -----END SSH SIGNATURE-----\n\ntitle\n", git.Commit{When: at, Author: "Ana Lima <ana@example.org>", Signed: true}},
		{"a message that looks like a head", head + "committer EMCO <emco@localhost> 1700000100 +0000\n\ngpgsig no\ncommitter x <y> 5 +0000\n", git.Commit{When: at, Author: "Ana Lima <ana@example.org>"}},
		{"without a time", head + "committer EMCO <emco@localhost> soon\n\ntitle\n", git.Commit{Author: "Ana Lima <ana@example.org>"}},
		{"no commit", "nothing", git.Commit{}},
	} {
		c := git.ReadCommit("c0ffee", []byte(tt.object))
		if !c.When.Equal(tt.want.When) || c.Author != tt.want.Author || c.Signed != tt.want.Signed {
			t.Errorf("%s: %+v, want %+v", tt.name, c, tt.want)
		}
	}
}

// Histories keep the parents of thousands of commits, and not their messages.
func TestParentsDoNotKeepTheMessageOfTheirCommit(t *testing.T) {
	const commits, message = 50, 1 << 20
	object := []byte("tree 0\nparent " + strings.Repeat("a", 40) + "\n\n" + strings.Repeat("m", message))
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var kept [][]git.Hash
	before := heap()
	for range commits {
		kept = append(kept, git.ReadCommit("c0ffee", object).Parents)
	}
	if after := heap(); after > before+commits*message/4 {
		t.Errorf("the parents of %d commits with messages of %d bytes keep %d bytes", commits, message, after-before)
	}
	runtime.KeepAlive(kept)
}
