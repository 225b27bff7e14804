package git

import "context"

// Differ is a Host that compares commits.
type Differ interface {
	// Changed returns the paths of files that differ between two commits, or that only one of them
	// holds, in byte order, and at most limit of them; an empty before has none. Trees that both
	// share are not read. It returns NotFound if the server does not hand out a commit.
	Changed(ctx context.Context, r Repo, d Difference) ([]string, error)
}

// Difference names two commits to compare.
type Difference struct {
	Before, After Hash
	Under         string // a directory; empty: all
	Limit         int    // paths
}
