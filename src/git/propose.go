package git

import "context"

// Proposer is a Host with pull requests, or merge requests.
type Proposer interface {
	// Propose asks the keepers of the branch into to take what the branch from holds. If
	// that was asked before, and is open, it is brought up to date and returned.
	Propose(ctx context.Context, r Repo, from, into string, m Message) (Proposal, error)
	// Proposal returns what was asked last to be taken from one branch into another;
	// NotFound if nothing was.
	Proposal(ctx context.Context, r Repo, from, into string) (Proposal, error)
}

// Proposal is a pull or merge request.
type Proposal struct {
	URL    string // for people
	Number int64
	State  ProposalState
	Head   Hash // the newest commit of the branch that is to be taken
	Merged Hash // the commit by which it was taken; only of a merged one
}

// ProposalState says what became of a proposal.
type ProposalState string

// The states of proposals.
const (
	ProposalOpen   ProposalState = "open"
	ProposalMerged ProposalState = "merged"
	ProposalClosed ProposalState = "closed" // refused
)

// StatusSetter is a Host that shows beside a commit what became of it.
type StatusSetter interface {
	// Mark sets the state of a commit under a name of ours; an earlier one of that name is replaced.
	SetStatus(ctx context.Context, r Repo, commit Hash, m CommitStatus) error
}

// CommitStatus is a commit status.
type CommitStatus struct {
	Name  string // of who says so, such as "emco/sync"
	State StatusState
	Text  string // one line
	URL   string // where there is more; may be empty
}

// StatusState is the state that a commit status shows.
type StatusState string

// The states of commits.
const (
	StatusPending StatusState = "pending"
	StatusSuccess StatusState = "success"
	StatusFailure StatusState = "failure"
)
