package clm

import (
	"bytes"

	"sigs.k8s.io/yaml"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// replaceInPlace prepares a new version of a registered cluster. Its description and its
// kubeconfig may change. How the cluster gets its state stays: what runs there would be left
// behind. Members of the location that the document leaves open are those of the registration.
func replaceInPlace(c *v2.Cluster, kubeconfig seal.Secret, old v2.Cluster, stored seal.Secret) (seal.Secret, error) {
	g, now := c.Spec.GitOps, old.Spec.GitOps
	if kind, ok := v2.GitOpsType(g.Type); ok {
		g.Type = kind
	}
	g.Moved = now.Moved
	if g.RefMode == "" {
		g.RefMode = now.RefMode
	}
	if g.Shard == "" {
		g.Shard = now.Shard
	}
	g.FanOut = g.FanOut || now.FanOut
	switch {
	case g == now:
	case g.MovedTo(now.Location()) == now:
		return nil, errs.New(errs.Conflict, "the place and the type of cluster "+c.Metadata.Name+" in Git change by a move only: POST …/clusters/"+c.Metadata.Name+"/move")
	default:
		return nil, errs.New(errs.Conflict, "how cluster "+c.Metadata.Name+" gets its state cannot change in place: terminate what runs there, delete the cluster and register it again")
	}
	c.Spec.GitOps = now
	if old.Direct() && maskedLike(kubeconfig, stored) {
		return stored, nil
	}
	return kubeconfig, nil
}

// maskedLike reports whether a kubeconfig is what clients see of the stored one.
func maskedLike(text, stored seal.Secret) bool {
	var shown redactedKubeconfig
	if err := yaml.UnmarshalStrict(text, &shown); err != nil {
		return false
	}
	same, err := yaml.Marshal(shown)
	return err == nil && bytes.Equal(same, redact(stored))
}
