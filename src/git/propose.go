package git

import "context"

// Proposer is a Host with pull requests, or merge requests.
type Proposer interface {
	// Propose asks the maintainers of the branch into to merge the branch from. A proposal that is
	// open already is updated and returned.
	Propose(ctx context.Context, r Repo, from, into string, m Message) (Proposal, error)
	// Proposal returns the newest proposal from one branch into another; NotFound if there was
	// none.
	Proposal(ctx context.Context, r Repo, from, into string) (Proposal, error)
}

// Proposal is a pull or merge request.
type Proposal struct {
	URL    string // for people
	Number int64
	State  ProposalState
	Head   Hash // the newest commit of the branch from
	Merged Hash // the merge commit; only of a merged one
}

// ProposalState is the state of a proposal.
type ProposalState string

// The states of proposals.
const (
	ProposalOpen   ProposalState = "open"
	ProposalMerged ProposalState = "merged"
	ProposalClosed ProposalState = "closed" // not merged
)

// StatusSetter is a Host that shows a status next to a commit.
type StatusSetter interface {
	// SetStatus sets a status of a commit. It replaces an earlier one of the same name.
	SetStatus(ctx context.Context, r Repo, commit Hash, m CommitStatus) error
}

// CommitStatus is a commit status.
type CommitStatus struct {
	Name  string // of the reporter, such as "emco/sync"
	State StatusState
	Text  string // one line
	URL   string // of details; may be empty
}

// StatusState is the state that a commit status shows.
type StatusState string

// The states of commits.
const (
	StatusPending StatusState = "pending"
	StatusSuccess StatusState = "success"
	StatusFailure StatusState = "failure"
)
