package apply

import (
	"encoding/json"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// staysInPlace reports whether both documents of a cluster deliver to it in the same way (spec). If so, the server
// replaces the rest, and the kubeconfig.
func staysInPlace(sent, stored []byte) bool {
	ours, err := v2.Decode[v2.Cluster](sent, v2.Lenient)
	if err != nil {
		return false
	}
	theirs, err := v2.Decode[v2.Cluster](stored, v2.Lenient)
	return err == nil && ours.Spec == theirs.Spec
}

// failInPlace returns the failure of a cluster that differs from the server's.
func (e *Executor) failInPlace(t documentRequest, item string, sent, stored []byte) output.Result {
	r := e.fail(t, item, inPlace(item))
	r.Advice = "delete it and register it again: emcoctl delete " + item
	ours, err := v2.Decode[v2.Cluster](sent, v2.Lenient)
	if err != nil {
		return r
	}
	theirs, err := v2.Decode[v2.Cluster](stored, v2.Lenient)
	if err != nil {
		return r
	}
	there := ours.Spec.GitOps.MovedTo(theirs.Spec.GitOps.Location())
	there.Moved = theirs.Spec.GitOps.Moved
	if there == theirs.Spec.GitOps && ours.Named == theirs.Named {
		r.Advice = "only its location in Git differs: move it with emcoctl move, or leave the location out of the document"
	}
	return r
}

// withLocation returns a cluster's document with the members of the location in Git that the
// server has chosen: those that the document leaves open, and after a move all of them. moved
// reports that the document names another location than the one that the cluster has moved to.
func withLocation(sent, stored []byte) (text []byte, moved bool) {
	ours, err := v2.Decode[v2.Cluster](sent, v2.Lenient)
	if err != nil {
		return sent, false
	}
	theirs, err := v2.Decode[v2.Cluster](stored, v2.Lenient)
	if err != nil || ours.Direct() || theirs.Direct() {
		return sent, false
	}
	g, now := ours.Spec.GitOps, theirs.Spec.GitOps
	g.Moved = now.Moved
	if g.RefMode == "" {
		g.RefMode = now.RefMode
	}
	if g.Shard == "" {
		g.Shard = now.Shard
	}
	g.FanOut = g.FanOut || now.FanOut
	if now.Moved.Number > 0 && g.Location() != now.Location() {
		g, moved = g.MovedTo(now.Location()), true
	}
	ours.Spec.GitOps = g
	if text, err = json.Marshal(ours); err != nil {
		return sent, false
	}
	return text, moved
}
