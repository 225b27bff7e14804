package argocd

import (
	"cmp"
	"encoding/json"
	"strconv"

	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/pointer"
)

// apiVersion is that of Argo CD's objects, since its first release.
const apiVersion = "argoproj.io/v1alpha1"

// finalizer makes Argo CD delete what an Application has applied before it deletes the
// Application, and keep an AppProject until its last Application is deleted.
const finalizer = "resources-finalizer.argocd.argoproj.io"

// Annotations that Argo CD reads.
const (
	syncWave = "argocd.argoproj.io/sync-wave"
	// ownPath limits a webhook for a commit to the Applications whose path it touches; one
	// repository may have thousands.
	ownPath = "argocd.argoproj.io/manifest-generate-paths"
)

// attempts is the number of attempts of Argo CD for one commit. More attempts would delay a
// correction, because Argo CD starts no later commit before.
const attempts = 5

// The members of Argo CD's types that the backend sets. None may have the zero value of its
// type: Argo CD drops such members from its objects, and would then report a difference.
type (
	applicationSpec struct {
		Project     string                 `json:"project"`
		Source      source                 `json:"source"`
		Destination applicationDestination `json:"destination"`
		SyncPolicy  syncPolicy             `json:"syncPolicy"`
	}
	source struct {
		RepoURL        string `json:"repoURL"`
		TargetRevision string `json:"targetRevision"`
		Path           string `json:"path"`
	}
	applicationDestination struct {
		Server    string `json:"server,omitempty"`
		Name      string `json:"name,omitempty"`
		Namespace string `json:"namespace"`
	}
	syncPolicy struct {
		Automated   automatedSync `json:"automated"`
		SyncOptions []string      `json:"syncOptions,omitempty"`
		Retry       retryPolicy   `json:"retry"`
	}
	automatedSync struct {
		Prune    bool `json:"prune"`
		SelfHeal bool `json:"selfHeal"`
	}
	retryPolicy struct {
		Limit   int     `json:"limit"`
		Backoff backoff `json:"backoff"`
	}
	backoff struct {
		Duration string `json:"duration"`
		Factor   int    `json:"factor"`
	}
	appProject struct {
		Description    string                   `json:"description,omitempty"`
		SourceRepos    []string                 `json:"sourceRepos"`
		Destinations   []applicationDestination `json:"destinations"`
		ClusterKinds   []kind                   `json:"clusterResourceWhitelist,omitempty"`
		ForbiddenKinds []kind                   `json:"namespaceResourceBlacklist,omitempty"`
	}
	kind struct {
		Group string `json:"group"`
		Kind  string `json:"kind"`
	}
)

// application returns the Application of an app.
func (b backend) application(t syncer.Target, app, project string) (pointer.Object, error) {
	dir, err := t.AppDir(app)
	if err != nil {
		return pointer.Object{}, err
	}
	return pointer.Object{
		APIVersion: apiVersion, Kind: "Application",
		Metadata: pointer.Metadata{
			Name: b.applicationName(t, app), Namespace: b.Namespace, Labels: pointer.Labels(t, app),
			Annotations: map[string]string{ownPath: "."}, Finalizers: []string{finalizer},
		},
		Spec: applicationSpec{
			Project:     project,
			Source:      source{RepoURL: t.Repo.URL, TargetRevision: t.Repo.Branch, Path: dir},
			Destination: b.destination(t.Namespace),
			SyncPolicy: syncPolicy{
				Automated: automatedSync{Prune: true, SelfHeal: true}, SyncOptions: b.syncOptions(),
				Retry: retryPolicy{Limit: attempts, Backoff: backoff{Duration: b.retry.String(), Factor: 1}},
			},
		},
	}, nil
}

// applicationName includes the cluster if one Argo CD serves several.
func (b backend) applicationName(t syncer.Target, app string) string {
	name := "emco-" + string(t.Deployment) + "-" + app
	if b.remote() {
		name += "-" + t.Cluster.String()
	}
	return pointer.Name(name)
}

func (b backend) remote() bool { return b.Name != "" || b.Server != "" && b.Server != inCluster }

func (b backend) destination(namespace string) applicationDestination {
	if b.Name != "" {
		return applicationDestination{Name: b.Name, Namespace: namespace}
	}
	return applicationDestination{Server: cmp.Or(b.Server, inCluster), Namespace: namespace}
}

func (b backend) syncOptions() []string {
	var out []string
	if b.CreateNamespace {
		out = append(out, "CreateNamespace=true")
	}
	if b.ServerSideApply == nil || bool(*b.ServerSideApply) {
		out = append(out, "ServerSideApply=true")
	}
	return out
}

// project returns the AppProject of a target's logical cloud, which makes Argo CD enforce
// the cloud's bounds. All deployments of the cloud on the cluster write the same one. Its
// name depends on its content: when settings change, deployments that are written again get
// another project, and the others keep theirs.
func (b backend) project(t syncer.Target) (pointer.Object, error) {
	spec := appProject{SourceRepos: []string{t.Repo.URL}}
	if t.Cloud.Confined {
		spec.Destinations = []applicationDestination{b.destination(t.Namespace)}
		// Apps must not change the bounds of their namespace.
		spec.ForbiddenKinds = []kind{{"", "LimitRange"}, {"", "ResourceQuota"}}
	} else {
		spec.Destinations = []applicationDestination{b.destination("*")}
		spec.ClusterKinds = []kind{{"*", "*"}}
	}
	about := t.Cloud.Name
	if about != "" {
		spec.Description = "logical cloud " + about
	} else {
		about = string(t.Deployment)
	}
	content, err := json.Marshal(spec)
	if err != nil {
		return pointer.Object{}, err
	}
	return pointer.Object{
		APIVersion: apiVersion, Kind: "AppProject",
		Metadata: pointer.Metadata{
			Name: pointer.Tagged("emco-"+about, about+string(content), 63), Namespace: b.Namespace,
			Labels:      map[string]string{"app.kubernetes.io/managed-by": "emco"},
			Annotations: map[string]string{syncWave: "-1"}, Finalizers: []string{finalizer},
		},
		Spec: spec,
	}, nil
}

// inWave makes Argo CD apply an object after those of lower waves.
func inWave(o *pointer.Object, wave int) {
	if wave > 0 {
		o.Metadata.Annotations[syncWave] = strconv.Itoa(wave)
	}
}

// waves returns for each app the length of the longest chain of dependencies in the plan.
// Cycles, which the API refuses, end after as many steps as there are apps.
func waves(apps []syncer.App) map[string]int {
	out := map[string]int{}
	for _, a := range apps {
		out[a.Name] = 0
	}
	for range len(apps) - 1 { // no chain is longer
		for _, a := range apps {
			for _, n := range a.DependsOn {
				if before, there := out[n.App]; there {
					out[a.Name] = min(max(out[a.Name], before+1), len(apps)-1)
				}
			}
		}
	}
	return out
}
