package publish

import (
	"context"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// Committer commits edits to a branch that others write too. Package batch implements it.
type Committer interface {
	Submit(ctx context.Context, j batch.Job) (git.Hash, error)
}

// SharedBranch writes into upstream's path on a branch that others write too:
//
//	clusters/<cluster>/status/<id>/app/<app>/<id>-<app>    one app, written when it changes
//	clusters/<cluster>/status/report.json                  the rest of the report, each time
//
// The credential for that branch can also write the desired state, so prefer
// OwnBranch.
type SharedBranch struct {
	host    git.Host
	commits Committer
	repo    Repository
	branch  string
	cluster string

	seq           sequence
	sequenceKnown bool
	apps          map[string]appFile // by label
}

// appFile is the last file of an app.
type appFile struct {
	digest string
	text   []byte
}

// NewSharedBranch returns a writer to upstream's path of a cluster.
func NewSharedBranch(h git.Host, c Committer, repo Repository, branch, cluster string) *SharedBranch {
	return &SharedBranch{host: h, commits: c, repo: repo, branch: branch, cluster: cluster, apps: map[string]appFile{}}
}

// Write replaces the directory of the cluster by the report.
func (p *SharedBranch) Write(ctx context.Context, r status.Report) error {
	repo, err := p.repo()
	if err != nil {
		return err
	}
	if err := p.readSequence(ctx, repo); err != nil {
		return err
	}
	r.Seq = p.seq.next(time.Now())
	files, err := p.files(r)
	if err != nil {
		return err
	}
	_, err = p.commits.Submit(ctx, batch.Job{
		Repo: repo, Branch: p.branch, Title: "status of " + r.Cluster,
		Edits: []git.Edit{{Path: p.root(), Dir: files}},
	})
	return err
}

func (p *SharedBranch) root() string { return "clusters/" + p.cluster + "/status" }

// files splits a report. The file of an app that has not changed keeps its bytes.
func (p *SharedBranch) files(r status.Report) (map[string][]byte, error) {
	fit, err := fit(r)
	if err != nil {
		return nil, err
	}
	apps, out := map[string]appFile{}, map[string][]byte{}
	for _, a := range fit.Apps {
		one := status.Report{Cluster: r.Cluster, Apps: []status.App{a}}
		w := appFile{digest: digestOf(one)}
		if last := p.apps[a.Label]; last.digest == w.digest {
			w = last
		} else {
			one.Seq, one.At = r.Seq, r.At
			if w.text, err = status.Encode(one, 0); err != nil {
				return nil, err
			}
		}
		if path := fileOf(a.Label); git.CheckPath(path) == nil {
			apps[a.Label], out[path] = w, w.text
		} else {
			fit.Truncated++
		}
	}
	fit.Apps = nil
	if out[status.File], err = status.Encode(fit, 0); err != nil {
		return nil, err
	}
	p.apps = apps
	return out, nil
}

// fit cuts a report so that the sum of its files keeps the limits of a report.
func fit(r status.Report) (status.Report, error) {
	repeated := (len(r.Apps) + 1) * (len(r.Cluster) + 256) // in each part
	text, err := status.Encode(r, max(status.MaxSize-repeated, status.MaxSize/2))
	if err != nil {
		return r, err
	}
	return status.Decode(text)
}

// fileOf returns upstream's path of an app from its label, "<id>-<app>".
func fileOf(label string) string {
	id, app, ok := strings.Cut(label, "-")
	if !ok || id == "" || app == "" {
		id, app = "other", label
	}
	return id + "/app/" + app + "/" + label
}

// readSequence reads the last sequence.
func (p *SharedBranch) readSequence(ctx context.Context, repo git.Repo) error {
	if p.sequenceKnown {
		return nil
	}
	head, err := p.host.Head(ctx, repo, p.branch)
	if errs.Is(err, errs.NotFound) {
		p.sequenceKnown = true // the first report creates the branch
		return nil
	}
	if err != nil {
		return err
	}
	for e, err := range p.host.Tree(ctx, repo, head, p.root()+"/"+status.File) {
		if err != nil {
			return err
		}
		text, err := p.host.Blob(ctx, repo, e.ID)
		if err != nil {
			return err
		}
		if r, err := status.Decode(text); err == nil {
			p.seq.atLeast(r.Seq)
		}
	}
	p.sequenceKnown = true
	return nil
}
