package appcontext

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// After a restore from a backup, numbers of revisions that were given after the backup are not given again,
// and revisions with these numbers are not known. Starts without a restore change nothing.
func TestH39NumbersOfLostRevisionsAreNotGivenAgain(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	_, err := s.ChangeHead(t.Context(), Head{}, Head{UID: "7", LastRev: 3}, nil, nil)
	must(t, err)
	note := func(wantJumped int) Head {
		t.Helper()
		jumped, err := s.NoteProgress(t.Context())
		must(t, err)
		if jumped != wantJumped {
			t.Errorf("%d heads have jumped, want %d", jumped, wantJumped)
		}
		h, err := s.Head(t.Context(), "7")
		must(t, err)
		return h
	}
	check := func(h Head, next int64, known ...int64) {
		t.Helper()
		if h.NextRevision() != next {
			t.Errorf("the next revision is %d, want %d", h.NextRevision(), next)
		}
		all := map[int64]bool{}
		for _, n := range known {
			all[n] = true
		}
		for _, n := range []int64{1, 3, 4, 900, 1000, 1001, 1002, 1900, 2001, 2002} {
			if h.Knows(n) != all[n] {
				t.Errorf("revision %d is known: %t, want %t", n, h.Knows(n), all[n])
			}
		}
	}
	restore := func() { // etcd's revision has jumped since the last note
		t.Helper()
		text, err := etcdkv.Encode("progress", progress{-2 * restoreJump})
		must(t, err)
		_, _, err = s.kv.Commit(t.Context(), "progress", nil, []clientv3.Op{clientv3.OpPut(progressKey(s.kv), text)})
		must(t, err)
	}

	check(note(0), 4, 1, 3)
	check(note(0), 4, 1, 3)
	restore()
	h := note(1)
	check(h, 1001, 1, 3)
	restore() // again, and before the next revision
	check(note(1), 1001, 1, 3)

	to := h
	to.LastRev = h.NextRevision()
	h, err = s.Head(t.Context(), "7")
	must(t, err)
	_, err = s.ChangeHead(t.Context(), h, to, nil, nil)
	must(t, err)
	check(note(0), 1002, 1, 3, 1001)
	must(t, s.SkipRevisions(t.Context(), "7", 1500)) // a commit on a branch carries it
	h = note(0)
	check(h, 2001, 1, 3, 4, 900, 1000, 1001) // one gap is kept, the last
	must(t, s.SkipRevisions(t.Context(), "7", 1400))
	if again := note(0); again.Mod != h.Mod {
		t.Error("a known loss is written again")
	}
	must(t, s.SkipRevisions(t.Context(), "8", 5)) // no such head
}
