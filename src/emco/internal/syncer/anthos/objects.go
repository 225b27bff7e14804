package anthos

import (
	"fmt"

	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/pointer"
)

// apiVersion is that of Config Sync's objects.
const apiVersion = "configsync.gke.io/v1beta1"

// namespace is the namespace of Config Sync and of RootSyncs.
const namespace = "config-management-system"

// Annotation that makes a sync object delete what it applied when it is deleted;
// otherwise everything would stay.
const (
	propagation = "configsync.gke.io/deletion-propagation-policy"
	foreground  = "Foreground"
)

// maxName bounds the names of sync objects. Config Sync names a reconciler
// "root-reconciler-", the name and its length, or "ns-reconciler-", the namespace, the name
// and its length, in at most 63 bytes.
const maxName = 63 - len("root-reconciler-") - len("-63")

// The members of Config Sync's types that are set here.
type (
	syncSpec struct {
		SourceType   string       `json:"sourceType"`
		SourceFormat string       `json:"sourceFormat"`
		Git          source       `json:"git"`
		Override     overrideSpec `json:"override"`
	}
	source struct {
		Repo      string     `json:"repo"`
		Branch    string     `json:"branch"`
		Dir       string     `json:"dir"`
		Period    string     `json:"period"`
		Auth      string     `json:"auth"`
		SecretRef *reference `json:"secretRef,omitempty"`
		CASecret  *reference `json:"caCertSecretRef,omitempty"`
	}
	overrideSpec struct {
		ReconcileTimeout string `json:"reconcileTimeout"`
	}
	reference struct {
		Name string `json:"name"`
	}
)

func (b backend) sync(t syncer.Target) syncSpec {
	return syncSpec{
		SourceType: "git", SourceFormat: "unstructured",
		Git: source{
			Repo: t.Repo.URL, Branch: t.Repo.Branch, Dir: t.Dir(), Period: b.interval.String(),
			Auth: b.auth(t.Repo.URL), SecretRef: refer(b.SecretRef), CASecret: refer(b.CASecretRef),
		},
		Override: overrideSpec{ReconcileTimeout: b.timeout.String()},
	}
}

func refer(secret string) *reference {
	if secret == "" {
		return nil
	}
	return &reference{secret}
}

func (b backend) rootSync(t syncer.Target) pointer.Object {
	return pointer.Object{
		APIVersion: apiVersion, Kind: "RootSync",
		Metadata: metadata(t, pointer.Short("emco-"+string(t.Deployment), maxName), namespace),
		Spec:     b.sync(t),
	}
}

// repoSync returns the sync object in the namespace of a logical cloud.
func (b backend) repoSync(t syncer.Target) (pointer.Object, error) {
	name := pointer.Short("emco-"+string(t.Deployment), maxName)
	if len(reconciler(t.Namespace, name)) > 63 {
		name = pointer.Short("emco-"+string(t.Deployment), 13)
	}
	if len(reconciler(t.Namespace, name)) > 63 {
		return pointer.Object{}, invalid("cluster "+t.Cluster.String(), "namespace "+t.Namespace+" of the logical cloud is too long for the names of Config Sync, which have at most 63 bytes and contain it")
	}
	return pointer.Object{
		APIVersion: apiVersion, Kind: "RepoSync",
		Metadata: metadata(t, name, t.Namespace),
		Spec:     b.sync(t),
	}, nil
}

// reconciler returns the name of the ServiceAccount that Config Sync creates for a RepoSync.
func reconciler(namespace, name string) string {
	return fmt.Sprintf("ns-reconciler-%s-%s-%d", namespace, name, len(name))
}

// binding gives the reconciler of a RepoSync its role; without it, it may do nothing.
func (b backend) binding(t syncer.Target, repoSync string) pointer.Object {
	m := metadata(t, pointer.Name("emco-"+string(t.Deployment)), t.Namespace)
	m.Annotations = nil
	return pointer.Object{
		APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding", Metadata: m,
		Members: map[string]any{
			"roleRef": map[string]string{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": b.Role},
			"subjects": []map[string]string{
				{"kind": "ServiceAccount", "name": reconciler(t.Namespace, repoSync), "namespace": namespace},
			},
		},
	}
}

func metadata(t syncer.Target, name, namespace string) pointer.Metadata {
	return pointer.Metadata{
		Name: name, Namespace: namespace, Labels: pointer.Labels(t, ""),
		Annotations: map[string]string{propagation: foreground},
	}
}
