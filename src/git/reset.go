package git

import "context"

// BranchResetter is a Host that can move a branch off its history.
type BranchResetter interface {
	// ResetBranch moves a branch and returns its new head. It returns Conflict, and leaves the
	// branch alone, if the branch is not at m.From; NotFound if the server does not hand out
	// m.Onto; Forbidden where the server keeps a branch on its history, as most do with protected
	// ones. Commits that only this branch held are lost. It is for branches of ours that proposals
	// are made from, and for operators.
	ResetBranch(ctx context.Context, r Repo, m BranchReset) (Hash, error)
}

// BranchReset is the new place of a branch: a commit of Edits on top of Onto, or Onto itself if
// there are no edits or they change nothing.
type BranchReset struct {
	Branch  string
	From    Hash // its head; empty if it does not exist
	Onto    Hash
	Edits   []Edit
	Message Message // of the commit, if there is one; its guard is called in any case
}
