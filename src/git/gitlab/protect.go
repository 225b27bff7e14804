package gitlab

import (
	"context"
	"fmt"

	api "gitlab.com/gitlab-org/api/client-go"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// whyRefused adds to a refused push whether the branch is protected from the token's user. All
// other errors stay unchanged, and so does this one if GitLab does not answer.
func (h *Host) whyRefused(ctx context.Context, r git.Repo, branch string, err error) error {
	if !errs.Is(err, errs.Forbidden) || r.Token == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	a, fault := h.client(ctx, r, "read")
	if fault != nil {
		return err
	}
	b, fault := call(ctx, a, readCost(), func(with api.RequestOptionFunc) (*api.Branch, *api.Response, error) {
		return a.api.Branches.GetBranch(a.address.project, branch, with)
	})
	if fault != nil || !b.Protected || b.CanPush {
		return err
	}
	return errs.E(errs.Forbidden, "", "", fmt.Errorf("%w; branch %s is protected and the token's user may not push to it: allow that in the project's settings, or have changes proposed by merge request", err, branch))
}
