package appcontext

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

const (
	maxCommits = 100 // of one revision that are remembered; the newest stay
	recordTry  = 5   // tries to record one, when others record at the same time
)

// RevisionCommit is a Git commit that carried a revision to clusters, or what was published
// of a revision for one cluster.
type RevisionCommit struct {
	Repository string `json:"repository"`        // URL, without credentials
	Branch     string `json:"branch"`            // none of what is published
	Commit     string `json:"commit"`            // or a digest, as "sha256:…"
	Clusters   int    `json:"clusters"`          // for how many
	Cluster    string `json:"cluster,omitempty"` // for which one, of what is published
}

// same says whether both are about the same commit, or the same publication.
func (c RevisionCommit) same(d RevisionCommit) bool {
	return c.Repository == d.Repository && c.Branch == d.Branch && c.Commit == d.Commit && c.Cluster == d.Cluster
}

// RecordCommit remembers that commits carried revision rev of the head uid. If a commit
// is known already, for other clusters, their number is added to. A revision that is
// not there, or not any more, is NotFound. It costs one read and one write.
func (s *Store) RecordCommit(ctx context.Context, uid string, rev int64, c ...RevisionCommit) error {
	if err := checkParts(uid); err != nil {
		return err
	}
	for range recordTry {
		done, err := s.recordCommit(ctx, uid, rev, c)
		if done || err != nil {
			return err
		}
	}
	return errs.E(errs.Conflict, "record", fmt.Sprintf("commits of revision %d", rev), errors.New("others record commits all the time"))
}

func (s *Store) recordCommit(ctx context.Context, uid string, rev int64, c []RevisionCommit) (done bool, err error) {
	key := s.commitKey(uid, rev)
	known, kv, err := one[[]RevisionCommit](ctx, s, key)
	mod := int64(0)
	switch {
	case err == nil:
		mod = kv.ModRevision
	case !errs.Is(err, errs.NotFound):
		return false, err
	}
	text, err := encode(key, merge(known, c))
	if err != nil {
		return false, err
	}
	_, done, err = s.commit(ctx, key, []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(key), "=", mod),
		clientv3.Compare(clientv3.CreateRevision(s.revKey(uid, rev)), ">", 0),
	}, []clientv3.Op{clientv3.OpPut(key, text)})
	if err != nil || done {
		return done, err
	}
	_, err = s.Revision(ctx, uid, rev)
	return false, err
}

// merge adds commits to those that are known.
func merge(known, commits []RevisionCommit) []RevisionCommit {
	for _, c := range commits {
		i := slices.IndexFunc(known, c.same)
		switch {
		case i < 0:
			known = append(known, c)
		case c.Cluster == "":
			known[i].Clusters += c.Clusters
		}
	}
	return known[max(0, len(known)-maxCommits):]
}

// Commits returns the commits that are remembered of a deployment's revisions, oldest
// first.
func (s *Store) Commits(ctx context.Context, uid string) (map[int64][]RevisionCommit, error) {
	if err := checkParts(uid); err != nil {
		return nil, err
	}
	type numbered struct {
		rev     int64
		commits []RevisionCommit
	}
	parse := func(kv *mvccpb.KeyValue) (n numbered, err error) {
		if n.rev, err = strconv.ParseInt(s.split(kv.Key)[3], 10, 64); err != nil {
			return n, corrupt(string(kv.Key), fmt.Errorf("no number of a revision: %w", err))
		}
		n.commits, err = decode[[]RevisionCommit](kv)
		return n, err
	}
	out := map[int64][]RevisionCommit{}
	for n, err := range records(s.list(ctx, &scan{prefix: s.key("dep", uid, "commit") + "/"}), parse) {
		if err != nil {
			return nil, err
		}
		out[n.rev] = n.commits
	}
	return out, nil
}
