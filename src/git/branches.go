package git

import "context"

// BranchReader is a Host that reads many small branches cheaply, such as those that clusters report
// to.
type BranchReader interface {
	// Branches lists the branches whose names start with prefix, in one exchange with the server,
	// and fetches those that want accepts: it is called once for each name, in order, with the head
	// of the branch. The result holds all listed branches; Files is set on those that were fetched.
	// A branch that cannot be read (a file or all files together exceed a limit, or it was moved
	// meanwhile) has Err and does not fail the others.
	Branches(ctx context.Context, r Repo, prefix string, want func(name string, at Hash) bool, limit Limit) (map[string]Branch, error)
}

// Branch is a branch and the files of its newest commit.
type Branch struct {
	Commit Hash
	Files  map[string][]byte // ordinary files by path; nil if they were not asked for
	Err    error             // TooLarge, NotFound or Invalid, if fetching failed
}

// Limit bounds what is fetched of one branch. It is enforced while bytes arrive: what exceeds it is
// never held in memory.
type Limit struct {
	Object int64 // bytes of one file
	Files  int   // files, and directories, of a branch
}

// Replacer is a Host that can replace the history of a branch.
type Replacer interface {
	// Replace makes a commit without parents that holds exactly the given files, and moves branch
	// from old to it; an empty old means that the branch does not exist yet. It returns Conflict,
	// and leaves the branch alone, if the branch is not at old, and Forbidden where the server
	// keeps branches on their history. It is for branches with one writer whose newest state alone
	// counts: what others wrote there is lost.
	Replace(ctx context.Context, r Repo, branch string, old Hash, files map[string][]byte, m Message) (Hash, error)
}

// HistoryReader is a Host that knows the ancestors of commits.
type HistoryReader interface {
	// History returns the parents of a commit and of its ancestors, up to depth commits back, by
	// commit. It returns NotFound if the server does not hand out the commit, and TooLarge from a
	// server that cannot leave out the content of commits.
	History(ctx context.Context, r Repo, commit Hash, depth int) (map[Hash][]Hash, error)
}

// BlobsReader is a Host that reads several small files at once.
type BlobsReader interface {
	// Blobs returns the content of files by their object names, in one exchange where the server
	// allows it. Files above limit bytes, or unknown to the server, are missing from the result;
	// what exceeds the limit is never held in memory.
	Blobs(ctx context.Context, r Repo, ids []Hash, limit int64) (map[Hash][]byte, error)
}
