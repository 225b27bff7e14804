package gittest

import (
	"context"
	"errors"
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// CheckBranchNames checks hostile case H-20: a host uses exactly the branch names that it is given. Names that lead
// elsewhere are Invalid, and neither HEAD of the repository nor a change of its default
// branch makes a difference. The repository, whose directory is dir, must be empty.
func CheckBranchNames(ctx context.Context, host git.Host, repo git.Repo, dir string) error {
	p := contractProbe{host: host, repo: repo, bare: Bare{Dir: dir}}
	if err := badBranch(ctx, p, ""); err != nil {
		return err
	}
	first, err := p.bare.CommitExternal(ctx, "main", map[string]File{"a": {Content: "1"}})
	if err != nil {
		return err
	}
	second, err := p.bare.CommitExternal(ctx, "main", map[string]File{"a": {Content: "2"}})
	if err != nil {
		return err
	}
	if _, err := p.bare.Git(ctx, "", "update-ref", "--no-deref", "HEAD", first); err != nil {
		return err
	}
	third, err := p.onto(ctx, "main", git.Hash(second), "b")
	if err != nil {
		return fmt.Errorf("HEAD is detached: %w", err)
	}
	return p.renamed(ctx, third)
}

// onto looks where a branch is, and commits on top of that.
func (p contractProbe) onto(ctx context.Context, branch string, want git.Hash, path string) (git.Hash, error) {
	head, err := p.host.Head(ctx, p.repo, branch)
	if err != nil || head != want {
		return "", errors.Join(err, fmt.Errorf("head of %s is %s, want %s", branch, head, want))
	}
	return p.commit(ctx, branch, head, git.Edit{Path: path, File: []byte(path)})
}

// renamed has the default branch renamed, and another one be the default.
func (p contractProbe) renamed(ctx context.Context, at git.Hash) error {
	for _, args := range [][]string{
		{"update-ref", "refs/heads/trunk", string(at)}, {"symbolic-ref", "HEAD", "refs/heads/trunk"}, {"update-ref", "-d", "refs/heads/main"},
	} {
		if _, err := p.bare.Git(ctx, "", args...); err != nil {
			return err
		}
	}
	_, gone := p.host.Head(ctx, p.repo, "main")
	_, lost := p.commit(ctx, "main", at, git.Edit{Path: "c", File: []byte("c")})
	if err := errors.Join(wantKind(gone, errs.NotFound), wantKind(lost, errs.Conflict)); err != nil {
		return fmt.Errorf("after the branch was renamed: %w", err)
	}
	if _, err := p.host.Head(ctx, p.repo, "main"); !errs.Is(err, errs.NotFound) {
		return fmt.Errorf("the branch of the old name is made again: %w", wantKind(err, errs.NotFound))
	}
	_, err := p.onto(ctx, "trunk", at, "c")
	return errors.Join(err, p.bare.Fsck(ctx))
}
