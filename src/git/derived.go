package git

import (
	"context"
	"errors"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// SourceTrailer is the key of the trailer that names, in a commit of a derived branch, the
// commit that it was derived from.
const SourceTrailer = "Emco-Source"

// DerivedWriter is a Host that keeps derived branches. Each holds one directory of another branch,
// at the same path, so that its reader fetches nothing else.
type DerivedWriter interface {
	// CommitDerived is Commit, and updates branches that are derived from the result: in the same
	// push, all or nothing, where the server can do that, else in a second push. A derived branch
	// that is up to date stays as it is. Any other gets a commit on top of its head, whoever wrote
	// that, or its first commit; it is never forced. Without edits, lagging derived branches catch
	// up. Nothing is derived from a branch that does not exist.
	//
	// Branches in Remove are deleted if their heads are derived commits. Other branches of these
	// names stay and are reported as Diverged.
	//
	// It returns Conflict if someone else moves the branch or a derived one meanwhile. After that,
	// and after Unavailable, the branch may have moved and derived branches may lag. If the server
	// refuses to move a derived branch, the error wraps a *PathError with its directory.
	CommitDerived(ctx context.Context, r Repo, s DerivedUpdate) (DerivedResult, error)
}

// DerivedUpdate is a commit and the branches to derive from it.
type DerivedUpdate struct {
	Branch  string
	Parent  Hash
	Edits   []Edit // none: only the derived branches are updated
	Derived []DerivedBranch
	Remove  []string // derived branches that lost their reader; none of them is in Derived
	Message Message
}

// Branches returns the names of all derived branches, also of those to remove.
func (s DerivedUpdate) Branches() []string {
	out := slices.Clone(s.Remove)
	for _, v := range s.Derived {
		out = append(out, v.Branch)
	}
	return out
}

// Check returns Invalid unless branch, edits and derived branches keep CheckBranch, CheckEdits and
// CheckDerived.
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

// DerivedBranch is a branch that holds one directory of another branch.
type DerivedBranch struct {
	Branch string
	Dir    string // in both branches
	// Empty are the files of the derived branch, by path relative to Dir, while its source has no
	// such directory: Git keeps no empty directories, and a reconciler whose directory is missing
	// prunes nothing.
	Empty map[string][]byte
}

// DerivedResult is the outcome of a DerivedUpdate.
type DerivedResult struct {
	Commit   Hash            // where the branch is, as Commit returns it
	Heads    map[string]Hash // of derived branches, by name
	Created  []string        // derived branches that did not exist; sorted
	Diverged []string        // derived branches whose heads others wrote: repaired, or not removed; sorted
	Removed  []string        // derived branches that were deleted; sorted
}

// CheckDerived returns Invalid if a derived branch has the name of its source or comes twice, or if
// its directory breaks CheckPath.
func CheckDerived(branch string, derived []DerivedBranch) error {
	seen := map[string]bool{branch: true}
	for _, v := range derived {
		if err := CheckBranch(v.Branch); err != nil {
			return err
		}
		if seen[v.Branch] {
			return errs.E(errs.Invalid, "derive", "branch "+v.Branch, errors.New("it cannot be derived twice, nor from itself"))
		}
		seen[v.Branch] = true
		if err := CheckEdits([]Edit{{Path: v.Dir, Dir: v.Empty}}); err != nil {
			return err
		}
	}
	return nil
}

// ForDerived returns the message of a derived branch's commit, which names directory and source.
func (m Message) ForDerived(v DerivedBranch, source Hash) Message {
	m.Title, m.Trailers = "Show "+v.Dir, []Trailer{{Key: SourceTrailer, Value: string(source)}}
	return m
}
