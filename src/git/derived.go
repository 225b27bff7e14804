package git

import (
	"context"
	"errors"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// SourceTrailer is the key of the trailer by which the commit of a view names the commit
// whose directory it shows.
const SourceTrailer = "Emco-Source"

// DerivedWriter is a Host that keeps views: branches that show one directory of another branch
// each, at the same path, so that whoever reads a view fetches nothing else.
type DerivedWriter interface {
	// CommitDerived is Commit, and has views show what the branch holds then: in the same push,
	// all or nothing, where the server can do that, and else in a second one. A view that
	// shows that already is left alone. Any other gets a commit on top of where it is, whoever
	// has put it there, or its first one; it is never forced. Without edits it brings views
	// up to date that lag behind. Nothing is shown of a branch that does not exist.
	//
	// Views that are gone are removed: those that show nothing but what was put there as a
	// view. Any other branch of that name is left alone, and told of as Strange.
	//
	// It returns Conflict if the branch or a view is moved by somebody else meanwhile. After
	// that, and after Unavailable, the branch may be moved and views may lag. A refusal to
	// move a view wraps a *PathError with its directory.
	CommitDerived(ctx context.Context, r Repo, s DerivedUpdate) (DerivedResult, error)
}

// DerivedUpdate is a commit with the views that are to show it.
type DerivedUpdate struct {
	Branch  string
	Parent  Hash
	Edits   []Edit // none: the views are brought up to date
	Derived []DerivedBranch
	Remove  []string // branches of views that nobody reads any more; none of them is one of Views
	Message Message
}

// Branches are the branches of all views, of those that are gone as well.
func (s DerivedUpdate) Branches() []string {
	out := slices.Clone(s.Remove)
	for _, v := range s.Derived {
		out = append(out, v.Branch)
	}
	return out
}

// Check says whether a showing can be: it keeps CheckBranch, CheckEdits and CheckViews. It
// returns Invalid.
func (s DerivedUpdate) Check() error {
	for _, check := range []func() error{
		func() error { return CheckBranch(s.Branch) },
		func() error { return CheckEdits(s.Edits) },
		func() error { return CheckDerived(s.Branch, s.Derived) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// DerivedBranch is a branch that shows one directory of another one.
type DerivedBranch struct {
	Branch string
	Dir    string // as in the branch that it shows
	// Empty are the files, by path relative to Dir, that the view holds where the other
	// branch has nothing there: Git keeps no empty directories, and a reconciler that misses
	// its directory removes nothing.
	Empty map[string][]byte
}

// DerivedResult says what a commit with views came to.
type DerivedResult struct {
	Commit   Hash            // where the branch is, as Commit returns it
	Heads    map[string]Hash // where the views are, by branch
	Created  []string        // views that were not there before; sorted
	Diverged []string        // views that somebody else had changed, and that were put right, or not removed; sorted
	Removed  []string        // views that are gone; sorted
}

// CheckDerived says whether views may follow a branch: each is another branch, none comes
// twice, and their directories keep CheckPath. It returns Invalid.
func CheckDerived(branch string, views []DerivedBranch) error {
	seen := map[string]bool{branch: true}
	for _, v := range views {
		if err := CheckBranch(v.Branch); err != nil {
			return err
		}
		if seen[v.Branch] {
			return errs.E(errs.Invalid, "show", "branch "+v.Branch, errors.New("it cannot show two things, nor itself"))
		}
		seen[v.Branch] = true
		if err := CheckEdits([]Edit{{Path: v.Dir, Dir: v.Empty}}); err != nil {
			return err
		}
	}
	return nil
}

// ForDerived returns the message of a view's commit: it says what is shown, and of which commit.
func (m Message) ForDerived(v DerivedBranch, source Hash) Message {
	m.Title, m.Trailers = "Show "+v.Dir, []Trailer{{Key: SourceTrailer, Value: string(source)}}
	return m
}
