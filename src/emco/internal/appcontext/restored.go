package appcontext

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

const (
	// restoreJump is between the writes of an installation within the period of NoteProgress and the bump of
	// etcd's revision by a restore, which is 1,000,000,000.
	restoreJump = 500_000_000
	// progressStep is how far etcd's revision goes on before it is stored again. Most starts therefore
	// write nothing, also those on a disk that is nearly full.
	progressStep = 1_000_000
	// revisionJump is how far the numbers of revisions jump at a restore, at least.
	revisionJump = 1000
	skipAttempts = 10
)

// progress is how far etcd's revision was at some time.
type progress struct {
	Revision int64 `json:"revision"`
}

func progressKey(kv *etcdkv.Client) string { return kv.Key("progress") }

// NoteProgress stores etcd's revision when it has gone on by a million. If it has jumped since it was
// stored, etcd was restored from a backup: then the numbers of revisions of all heads jump, because those after the backup were made
// before. NoteProgress returns the number of these heads. Call it at each start, before anything makes
// revisions, and at least once a day.
func (s *Store) NoteProgress(ctx context.Context) (jumped int, err error) {
	key := progressKey(s.kv)
	r, err := s.kv.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	now, was := progress{r.Header.Revision}, progress{}
	if len(r.Kvs) > 0 {
		if was, err = etcdkv.Decode[progress](r.Kvs[0]); err != nil {
			return 0, err
		}
	}
	if now.Revision-was.Revision < progressStep && len(r.Kvs) > 0 {
		return 0, nil
	}
	if now.Revision-was.Revision > restoreJump {
		for h, err := range s.Heads(ctx) {
			if err == nil {
				err = s.SkipRevisions(ctx, h.UID, h.LastRev)
			}
			if err != nil {
				return jumped, err
			}
			jumped++
		}
	}
	text, err := etcdkv.Encode(key, now)
	if err != nil {
		return jumped, err
	}
	_, _, err = s.kv.Commit(ctx, key, nil, []clientv3.Op{clientv3.OpPut(key, text)})
	return jumped, err
}

// SkipRevisions marks the revisions of a head after its last one as lost, up to at least the given one and
// a thousand more. It is no error if there is no such head, or if they are marked.
func (s *HeadStore) SkipRevisions(ctx context.Context, uid HeadID, lost int64) error {
	for range skipAttempts {
		h, err := s.Head(ctx, uid)
		if errs.Is(err, errs.NotFound) {
			return nil
		}
		if err != nil || h.Lost.After == h.LastRev && h.Lost.Before > lost {
			return err
		}
		to := h
		if to.Lost.Before <= h.LastRev { // an earlier gap stays one with this
			to.Lost.After = h.LastRev
		}
		to.Lost.Before = max(h.LastRev, lost)/revisionJump*revisionJump + revisionJump + 1
		_, err = s.ChangeHeads(ctx, HeadChange{From: h, To: to})
		if !errs.Is(err, errs.Conflict) {
			return err
		}
	}
	return errs.E(errs.Unavailable, "skip", "revisions of deployment "+string(uid), fmt.Errorf("the head changed %d times meanwhile; the start tries again", skipAttempts))
}
