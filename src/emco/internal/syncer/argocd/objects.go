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

// finalizer makes Argo CD delete what an Application has put on the cluster before the
// Application goes, and keep an AppProject until its last Application is gone.
const finalizer = "resources-finalizer.argocd.argoproj.io"

// Annotations that Argo CD reads.
const (
	syncWave = "argocd.argoproj.io/sync-wave"
	// ownPath has a webhook for a commit wake only those Applications whose path it
	// touches, of the thousands that read one repository.
	ownPath = "argocd.argoproj.io/manifest-generate-paths"
)

// attempts is how often Argo CD tries one commit. While it does it takes up no later
// one, so that more attempts would keep a correction waiting.
const attempts = 5

// The members of Argo CD's types that are set here. No member may have the zero value of
// its type: Argo CD drops those from its objects, and would then find them changed.
type (
	application struct {
		Project     string      `json:"project"`
		Source      source      `json:"source"`
		Destination destination `json:"destination"`
		SyncPolicy  syncPolicy  `json:"syncPolicy"`
	}
	source struct {
		RepoURL        string `json:"repoURL"`
		TargetRevision string `json:"targetRevision"`
		Path           string `json:"path"`
	}
	destination struct {
		Server    string `json:"server,omitempty"`
		Name      string `json:"name,omitempty"`
		Namespace string `json:"namespace"`
	}
	syncPolicy struct {
		Automated   automated `json:"automated"`
		SyncOptions []string  `json:"syncOptions,omitempty"`
		Retry       retry     `json:"retry"`
	}
	automated struct {
		Prune    bool `json:"prune"`
		SelfHeal bool `json:"selfHeal"`
	}
	retry struct {
		Limit   int     `json:"limit"`
		Backoff backoff `json:"backoff"`
	}
	backoff struct {
		Duration string `json:"duration"`
		Factor   int    `json:"factor"`
	}
	appProject struct {
		Description    string        `json:"description,omitempty"`
		SourceRepos    []string      `json:"sourceRepos"`
		Destinations   []destination `json:"destinations"`
		ClusterKinds   []kind        `json:"clusterResourceWhitelist,omitempty"`
		ForbiddenKinds []kind        `json:"namespaceResourceBlacklist,omitempty"`
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
		Spec: application{
			Project:     project,
			Source:      source{RepoURL: t.Repo.URL, TargetRevision: t.Repo.Branch, Path: dir},
			Destination: b.destination(t.Namespace),
			SyncPolicy: syncPolicy{
				Automated: automated{Prune: true, SelfHeal: true}, SyncOptions: b.syncOptions(),
				Retry: retry{Limit: attempts, Backoff: backoff{Duration: b.retry.String(), Factor: 1}},
			},
		},
	}, nil
}

// applicationName names the cluster as well where one Argo CD serves several.
func (b backend) applicationName(t syncer.Target, app string) string {
	name := "emco-" + string(t.Deployment) + "-" + app
	if b.remote() {
		name += "-" + t.Cluster.String()
	}
	return pointer.Name(name)
}

func (b backend) remote() bool { return b.Name != "" || b.Server != "" && b.Server != inCluster }

func (b backend) destination(namespace string) destination {
	if b.Name != "" {
		return destination{Name: b.Name, Namespace: namespace}
	}
	return destination{Server: cmp.Or(b.Server, inCluster), Namespace: namespace}
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

// project returns the AppProject of a target's logical cloud: its bounds, as Argo CD
// holds apps to them. All deployments of the cloud on the cluster bring the same one. It
// is named after its content, so that they stay equal when settings change: those that
// are written anew get another project, and the others keep theirs.
func (b backend) project(t syncer.Target) (pointer.Object, error) {
	spec := appProject{SourceRepos: []string{t.Repo.URL}}
	if t.Cloud.Confined {
		spec.Destinations = []destination{b.destination(t.Namespace)}
		// What bounds a namespace is not for those who are bounded.
		spec.ForbiddenKinds = []kind{{"", "LimitRange"}, {"", "ResourceQuota"}}
	} else {
		spec.Destinations = []destination{b.destination("*")}
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

// inWave has an object applied after those of lower waves.
func inWave(o *pointer.Object, wave int) {
	if wave > 0 {
		o.Metadata.Annotations[syncWave] = strconv.Itoa(wave)
	}
}

// waves says for each app how many others of the plan stand one behind the other before
// it. In a circle, which is refused long before, they end somewhere.
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
