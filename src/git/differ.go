package git

import "context"

// Differ is a Host that says what differs between two commits.
type Differ interface {
	// Changed returns the paths of files that one commit holds and the other does not, or
	// holds otherwise, in byte order, and at most limit of them; an empty before has none.
	// Trees that both share are not looked into. NotFound if the server does not give out a commit.
	Changed(ctx context.Context, r Repo, d Difference) ([]string, error)
}

// Difference is what is asked for of two commits.
type Difference struct {
	Before, After Hash
	Under         string // a directory; empty: all
	Limit         int    // paths
}
