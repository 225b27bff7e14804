// Package gitlab is the Git host for GitLab: gitlab.com and private installations. It reads and
// commits over Git's protocol; GitLab's REST API serves what Git's protocol does not have:
//
//	Head, Tree, Blob, Commit, …   git-upload-pack, git-receive-pack   package plain
//	Propose, Proposal             merge requests                      1 to 3 calls
//	SetStatus                     statuses of commits                 1 call, 2 at most
//	a refused push                the state of the branch             1 call
//
// It does not commit over REST, because REST cannot keep the contract of git.Host: it moves a
// branch from any commit, and guards at best single files.
//
// One token serves both: of a user, a project or a group.
package gitlab
