package v2

// GitBranch is a branch that rsync has written to, as GET /v2/git/branches lists it. POST
// /v2/git/adopt, with its URL and Branch, accepts its present history: rsync then writes
// the desired state on top of it.
type GitBranch struct {
	URL    string `json:"url"`
	Branch string `json:"branch"`
	Commit string `json:"commit,omitempty"` // the last one that rsync wrote; empty: any history is accepted
}
