// Package anthos is the sync backend "anthos": in addition to the files of a target it
// writes the object that makes Config Sync reconcile them.
//
//	clusters/<provider>+<cluster>/
//	├── configsync/<id>.yaml               RootSync, or RepoSync of a logical cloud with bounds
//	└── context/<id>/app/<app>/<name>+<Kind>.yaml
//
// Config Sync reads directories recursively. So it is bootstrapped on a directory of
// pointers alone, clusters/<provider>+<cluster>/configsync. Each sync object has its own
// reconciler on the cluster; so there is one for a deployment, not one for each app.
package anthos

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/pointer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
)

// Options are read from the cluster's sync objects.
type Options struct {
	// Interval is the time between two checks of the branch by Config Sync; default 60 s.
	Interval syncobjects.Duration `json:"syncInterval,omitempty"`
	// Timeout is the time that Config Sync waits for objects to become ready before it reports a failure; default 60 s.
	Timeout syncobjects.Duration `json:"timeOut,omitempty"`
	// Retry is not used: Config Sync chooses its own retry time.
	Retry syncobjects.Duration `json:"retryInterval,omitempty"`
	// Auth is Config Sync's login to the repository: none, token or ssh. Default: by the URL with secretRef,
	// otherwise none.
	Auth string `json:"auth,omitempty"`
	// SecretRef names the Secret on the edge with the credential, in
	// config-management-system, or in the namespace of a logical cloud of level 1.
	SecretRef string `json:"secretRef,omitempty"`
	// CASecretRef names the Secret with the server's certificate authority as cert, in the same namespace as that of secretRef.
	CASecretRef string `json:"caCertSecretRef,omitempty"`
	// Role is the ClusterRole of a logical cloud of level 1 in its namespace; default admin.
	Role string `json:"clusterRole,omitempty"`
}

// Values of auth.
const (
	authNone  = "none"
	authToken = "token"
	authSSH   = "ssh"
)

// mostObjects is the capacity of one sync object: its inventory is a single object on the
// cluster, of limited size.
const mostObjects = 5000

// New returns the backend.
func New(o Options) (syncer.Backend, error) {
	var bad string
	switch {
	case !slices.Contains([]string{"", authNone, authToken, authSSH}, o.Auth):
		bad = "auth can only be none, token or ssh"
	case o.SecretRef != "" && o.Auth == authNone:
		bad = "secretRef is given although auth is none"
	case o.SecretRef == "" && (o.Auth == authToken || o.Auth == authSSH):
		bad = "auth " + o.Auth + " needs secretRef"
	}
	if bad != "" {
		return nil, errs.E(errs.Invalid, "open", "sync backend anthos", errors.New(bad))
	}
	err := errors.Join(
		pointer.CheckName("anthos", "secretRef", o.SecretRef),
		pointer.CheckName("anthos", "caCertSecretRef", o.CASecretRef),
		pointer.CheckName("anthos", "clusterRole", o.Role),
	)
	if err != nil {
		return nil, err
	}
	o.Role = cmp.Or(o.Role, "admin")
	return backend{
		Options: o, writer: syncer.NewWriter(syncer.Keep()),
		interval: o.Interval.Or(syncobjects.DefaultInterval), timeout: o.Timeout.Or(syncobjects.DefaultInterval),
	}, nil
}

type backend struct {
	Options
	writer            *syncer.Writer
	interval, timeout time.Duration
}

// Pointers returns the file of the sync object.
func (b backend) Pointers(t syncer.Target) []string { return []string{file(t)} }

func file(t syncer.Target) string { return t.PointerIn("configsync", "") }

// Plan makes the target hold the files of the apps and the pointer for Config Sync. It
// refuses what Config Sync would refuse, because there it would stop all apps of the
// deployment.
func (b backend) Plan(t syncer.Target, apps []syncer.App) (syncer.Change, error) {
	if err := acceptable(t, apps); err != nil {
		return syncer.Change{}, err
	}
	files, err := b.writer.Tree(apps)
	if err != nil {
		return syncer.Change{}, err
	}
	edit := git.Edit{Path: file(t)}
	if len(files) > 0 {
		if edit.File, err = b.pointers(t); err != nil {
			return syncer.Change{}, err
		}
	}
	edits := []git.Edit{edit, syncer.EditDir(t.Dir(), files)}
	slices.SortFunc(edits, func(x, y git.Edit) int { return cmp.Compare(x.Path, y.Path) })
	return syncer.Change{Edits: edits}, nil
}

// acceptable refuses more objects than one sync object can hold and, in a confined logical
// cloud, objects outside of its namespace.
func acceptable(t syncer.Target, apps []syncer.App) error {
	count := 0
	for _, a := range apps {
		if count += len(a.Objects) + len(a.CRDs); count > mostObjects {
			return invalid("app "+a.Name, fmt.Sprintf("with it the deployment has more than %d objects on cluster %s, which is the limit of Config Sync", mostObjects, t.Cluster))
		}
		for _, o := range slices.Concat(a.Objects, a.CRDs) {
			if t.Cloud.Confined && !inside(o.ID, t.Namespace) {
				return invalid(fmt.Sprintf("app %s: %s", a.Name, o.ID), "it is outside of namespace "+t.Namespace+", the only one of the logical cloud")
			}
		}
	}
	return nil
}

func inside(id manifest.ID, namespace string) bool {
	return id.Namespace == namespace && !manifest.IsCRD(id)
}

func invalid(subject, why string) error {
	return errs.E(errs.Invalid, "plan", subject, errors.New(why))
}

// pointers returns the sync object, with its role if it is confined.
func (b backend) pointers(t syncer.Target) ([]byte, error) {
	if !t.Cloud.Confined {
		return pointer.File([]pointer.Object{b.rootSync(t)})
	}
	repo, err := b.repoSync(t)
	if err != nil {
		return nil, err
	}
	return pointer.File([]pointer.Object{repo, b.binding(t, repo.Metadata.Name)})
}

// auth returns the login method of Config Sync.
func (b backend) auth(url string) string {
	switch {
	case b.Auth != "":
		return b.Auth
	case b.SecretRef == "":
		return authNone
	case strings.HasPrefix(url, "ssh://"):
		return authSSH
	}
	return authToken
}
