package git

import "context"

// BranchResetter is a Host that can put a branch somewhere else than on top of where it is.
type BranchResetter interface {
	// Move puts a branch where it is told to, and returns where it is then. Conflict, and the
	// branch is left alone, if it is not at m.From; NotFound if the server does not give out
	// m.Onto; Forbidden where it does not let a branch leave its history, as most do not with
	// protected ones. What only the branch held is lost: it is for branches of ours that
	// proposals are made of, and for operators who have decided so.
	ResetBranch(ctx context.Context, r Repo, m BranchReset) (Hash, error)
}

// BranchReset is where a branch is to be: at a commit of Edits on top of Onto, or at Onto
// itself if there are none or they change nothing.
type BranchReset struct {
	Branch  string
	From    Hash // where it is; empty if it is not there yet
	Onto    Hash
	Edits   []Edit
	Message Message // of the commit, if there is one; its guard is asked in any case
}
