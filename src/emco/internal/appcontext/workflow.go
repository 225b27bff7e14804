package appcontext

import (
	"context"
	"iter"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// WorkflowRun is the last run of a workflow of a deployment. It is written before the run has
// an effect, so that a run survives the process that carries it out.
type WorkflowRun struct {
	UID  HeadID  `json:"-"` // of the head
	Name RunName `json:"-"`

	Group     string    `json:"group"`               // path of the deployment intent group
	ID        string    `json:"id"`                  // of this run; a server that gets it twice does the work once
	Hook      string    `json:"hook,omitempty"`      // type of the hook; empty: a user started it
	After     string    `json:"after,omitempty"`     // what a hook after the action waits for
	Operation string    `json:"operation,omitempty"` // that the hook belongs to
	Rev       int64     `json:"rev,omitempty"`       // that the hook belongs to
	State     string    `json:"state"`               // v2.RunWaiting and the others
	Attempt   int       `json:"attempt,omitempty"`
	Message   string    `json:"message,omitempty"` // what it waits for, or why it failed
	Result    string    `json:"result,omitempty"`  // what the workflow answered; the first part
	Since     time.Time `json:"since"`             // beginning of the state
	Started   time.Time `json:"started,omitzero"`
	Deadline  time.Time `json:"deadline,omitzero"`   // when the run counts as failed
	Next      time.Time `json:"next,omitzero"`       // of the next attempt
	Cancel    string    `json:"cancel,omitempty"`    // who asked that a running one ends, and why
	Terminate bool      `json:"terminate,omitempty"` // with Cancel: it ends without its consent
	Mod       int64     `json:"-"`                   // etcd revision at which it was read; used for compare-and-swap
}

// RunName names the workflow of a run among those of its deployment.
type RunName string

const (
	hookPrefix     = "hook."
	workflowPrefix = "workflow."
)

// HookRun returns the name of a hook's run.
func HookRun(intent string) RunName { return RunName(hookPrefix + intent) }

// StartedRun returns the name of the run of a workflow that users start.
func StartedRun(intent string) RunName { return RunName(workflowPrefix + intent) }

// Intent returns the name of the intent, and whether it is a hook.
func (n RunName) Intent() (name string, hook bool) {
	if name, ok := strings.CutPrefix(string(n), hookPrefix); ok {
		return name, true
	}
	return strings.TrimPrefix(string(n), workflowPrefix), false
}

// WorkflowStore stores the runs of workflows.
type WorkflowStore struct{ kv *etcdkv.Client }

func runKey(kv *etcdkv.Client, uid HeadID, name RunName) string {
	return kv.Key(string(HookSpace), string(uid), string(name))
}

func runPrefix(kv *etcdkv.Client, uid HeadID) string {
	return kv.Key(string(HookSpace), string(uid)) + "/"
}

// Run returns the last run of a workflow, or NotFound.
func (s *WorkflowStore) Run(ctx context.Context, uid HeadID, name RunName) (WorkflowRun, error) {
	if err := etcdkv.CheckParts(string(uid), string(name)); err != nil {
		return WorkflowRun{}, err
	}
	r, kv, err := etcdkv.Read[WorkflowRun](ctx, s.kv, runKey(s.kv, uid, name))
	if err != nil {
		return WorkflowRun{}, err
	}
	r.UID, r.Name, r.Mod = uid, name, kv.ModRevision
	return r, nil
}

// Runs returns the last runs of a deployment's workflows, in order of name.
func (s *WorkflowStore) Runs(ctx context.Context, uid HeadID) ([]WorkflowRun, error) {
	return s.runsAt(ctx, uid, 0)
}

func (s *WorkflowStore) runsAt(ctx context.Context, uid HeadID, rev int64) (out []WorkflowRun, err error) {
	if err := etcdkv.CheckParts(string(uid)); err != nil {
		return nil, err
	}
	for r, err := range etcdkv.Records(s.kv.List(ctx, etcdkv.Scan{Prefix: runPrefix(s.kv, uid), Revision: rev}), s.parseRun) {
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// HeadAndRuns returns a deployment's head, nil if it has none, and the last runs of its workflows, as they were at the
// same moment. An action records both together, so only such a head decides about these runs.
func (s *Store) HeadAndRuns(ctx context.Context, uid HeadID) (*Head, []WorkflowRun, error) {
	if err := etcdkv.CheckParts(string(uid)); err != nil {
		return nil, nil, err
	}
	r, err := s.kv.Get(ctx, headKey(s.kv, uid))
	if err != nil {
		return nil, nil, err
	}
	runs, err := s.runsAt(ctx, uid, r.Header.Revision)
	if err != nil || len(r.Kvs) == 0 {
		return nil, runs, err
	}
	head, err := s.parseHead(r.Kvs[0])
	return &head, runs, err
}

func (s *WorkflowStore) parseRun(kv *mvccpb.KeyValue) (WorkflowRun, error) {
	r, err := etcdkv.Decode[WorkflowRun](kv)
	named := s.nameRun(kv.Key)
	r.UID, r.Name, r.Mod = named.UID, named.Name, kv.ModRevision
	return r, err
}

// nameRun returns a run with UID and Name alone; without them if the key is not that of a run.
func (s *WorkflowStore) nameRun(key []byte) (r WorkflowRun) {
	if p := s.kv.Split(key); len(p) == 3 {
		r.UID, r.Name = HeadID(p[1]), RunName(p[2])
	}
	return r
}

// SetRun writes a run that must still be as r was read (r.Mod; 0: it must not exist). Conflict
// with ErrOvertaken otherwise.
func (s *WorkflowStore) SetRun(ctx context.Context, r WorkflowRun) (WorkflowRun, error) {
	if err := etcdkv.CheckParts(string(r.UID), string(r.Name)); err != nil {
		return r, err
	}
	key := runKey(s.kv, r.UID, r.Name)
	text, err := etcdkv.Encode(key, r)
	if err != nil {
		return r, err
	}
	rev, ok, err := s.kv.Commit(ctx, key, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", r.Mod)}, []clientv3.Op{clientv3.OpPut(key, text)})
	switch {
	case err != nil:
		return r, err
	case !ok:
		return r, overtaken(r.UID)
	}
	r.Mod = rev
	return r, nil
}

// ForgetRun removes the last run of a workflow. It is no error if there is none.
func (s *WorkflowStore) ForgetRun(ctx context.Context, uid HeadID, name RunName) error {
	if err := etcdkv.CheckParts(string(uid), string(name)); err != nil {
		return err
	}
	key := runKey(s.kv, uid, name)
	_, _, err := s.kv.Commit(ctx, key, nil, []clientv3.Op{clientv3.OpDelete(key)})
	return err
}

// WatchRuns yields every run, then new and changed ones, each at least once; of one that was
// removed UID and Name alone. It ends only when ctx ends. An error stands for one run that cannot
// be read (UID and Name are set); the iteration goes on.
func (s *WorkflowStore) WatchRuns(ctx context.Context) iter.Seq2[WorkflowRun, error] {
	return func(yield func(WorkflowRun, error) bool) {
		for c := range s.kv.Watch(ctx, s.kv.Key(string(HookSpace))+"/") {
			if c.Synced {
				continue
			}
			r, err := WorkflowRun{}, error(nil)
			if c.Deleted {
				r = s.nameRun(c.KV.Key)
			} else {
				r, err = s.parseRun(c.KV)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}
