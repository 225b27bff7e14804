package git

import "context"

// BranchReader is a Host that reads many small branches at little cost, such as those
// that clusters report to.
type BranchReader interface {
	// Branches lists the branches whose names start with prefix, in one exchange with the
	// server, and fetches those that want asks for: it is called once for each name, with
	// the commit that the branch points at. The result holds all that were listed; Files
	// is set on those that were asked for. A branch that cannot be had (one of its files
	// or all of them together are above a limit, or it was moved meanwhile) has Err, and
	// does not fail the others. The order of calls is that of the names.
	Branches(ctx context.Context, r Repo, prefix string, want func(name string, at Hash) bool, limit Limit) (map[string]Branch, error)
}

// Branch is a branch and what its newest commit holds.
type Branch struct {
	Commit Hash
	Files  map[string][]byte // ordinary files by path; nil if they were not asked for
	Err    error             // TooLarge, NotFound or Invalid, if they were asked for and not got
}

// Limit bounds what is fetched of one branch. A limit is kept while bytes come in:
// what is above it is never held in memory.
type Limit struct {
	Object int64 // bytes of one file
	Files  int   // files, and directories, of a branch
}

// Replacer is a Host that can put a branch somewhere else than on top of itself.
type Replacer interface {
	// Replace makes a commit without parents that holds exactly the given files, and
	// moves branch from the commit old to it; an empty old asks for a branch that is not
	// there yet. It returns Conflict, and leaves the branch alone, if it is not at old,
	// and Forbidden where the server takes only commits on top of a branch. It is for
	// branches of which the newest state alone counts and that have one writer: what
	// others put there is lost.
	Replace(ctx context.Context, r Repo, branch string, old Hash, files map[string][]byte, m Message) (Hash, error)
}

// HistoryReader is a Host that knows which commits came before others.
type HistoryReader interface {
	// History returns the parents of a commit and of those before it, as far as depth
	// commits back, by commit. It returns NotFound if the server does not give the commit
	// out, and TooLarge from a server that cannot leave out what the commits hold.
	History(ctx context.Context, r Repo, commit Hash, depth int) (map[Hash][]Hash, error)
}

// BlobsReader is a Host that reads several small files at once.
type BlobsReader interface {
	// Blobs returns the content of files by the names of their objects, in one exchange
	// where the server allows it. One that is above limit bytes, or that the server does
	// not have, is not in the result; what is above the limit is never held in memory.
	Blobs(ctx context.Context, r Repo, ids []Hash, limit int64) (map[Hash][]byte, error)
}
