// Package gitlab is the host of GitLab, gitlab.com or one's own. Data goes by Git's
// protocol, as package plain speaks it; GitLab's REST API serves what Git has no words for:
//
//	Head, Tree, Blob, Commit, …   git-upload-pack, git-receive-pack   package plain
//	Propose, Proposal             merge requests                      1 to 3 calls
//	Mark                          statuses of commits                 1 call, 2 at most
//	a refused push                what is known of the branch         1 call
//
// Commits are not made by the API, since it cannot keep the contract of git.Host: it moves
// a branch from wherever that is, and guards files one by one at best.
//
// The same token serves both ways, be it personal, or that of a project or a group.
package gitlab
