package v2

// GitBranch is a branch that rsync has written to, as GET /v2/git/branches lists it.
// POST /v2/git/adopt takes its URL and Branch, and has its history taken as it is: all
// that is desired is written anew on top of whatever is there.
type GitBranch struct {
	URL    string `json:"url"`
	Branch string `json:"branch"`
	Commit string `json:"commit,omitempty"` // that was written last; empty: whatever is there will do
}
