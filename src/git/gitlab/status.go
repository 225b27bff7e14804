package gitlab

import (
	"context"

	api "gitlab.com/gitlab-org/api/client-go"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

const maxMark = 255 // characters of a name or a text that GitLab takes

// states maps states to GitLab's words.
var states = map[git.StatusState]api.BuildStateValue{
	git.StatusPending: api.Pending, git.StatusSuccess: api.Success, git.StatusFailure: api.Failed,
}

// SetStatus sets a status of a commit. GitLab refuses a state that the name has already; such a
// status stays, with its text.
func (h *Host) SetStatus(ctx context.Context, r git.Repo, commit git.Hash, m git.CommitStatus) error {
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	a, err := h.client(ctx, r, "set status")
	if err != nil {
		return err
	}
	state, ok := states[m.State]
	if !ok {
		return a.errorOf(errs.Invalid, "no such state of a commit: "+string(m.State))
	}
	o := api.SetCommitStatusOptions{State: state, Name: api.Ptr(truncate(m.Name, maxMark)), Description: api.Ptr(truncate(m.Text, maxMark))}
	if m.URL != "" {
		o.TargetURL = &m.URL
	}
	_, err = call(ctx, a, writeCost(), func(with api.RequestOptionFunc) (*api.CommitStatus, *api.Response, error) {
		return a.api.Commits.SetCommitStatus(a.address.project, string(commit), &o, with)
	})
	if errs.Is(err, errs.Invalid) && a.hasStatus(ctx, commit, *o.Name, state) {
		return nil
	}
	return err
}

// hasStatus reports whether a commit is in a state under a name.
func (a *client) hasStatus(ctx context.Context, commit git.Hash, name string, state api.BuildStateValue) bool {
	found, err := call(ctx, a, readCost(), func(with api.RequestOptionFunc) ([]*api.CommitStatus, *api.Response, error) {
		return a.api.Commits.GetCommitStatuses(a.address.project, string(commit), &api.GetCommitStatusesOptions{Name: &name}, with)
	})
	if err != nil {
		return false
	}
	var newest *api.CommitStatus
	for _, s := range found {
		if s.Name == name && (newest == nil || s.ID > newest.ID) {
			newest = s
		}
	}
	return newest != nil && newest.Status == string(state)
}
