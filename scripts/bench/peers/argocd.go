package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/git/gittest"

	"github.com/emco-orchestrator/emco/scripts/testbed/argocd"
	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"

	"github.com/emco-orchestrator/emco/scripts/bench/site"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// ArgoWebhook is Argo CD in a hub, with an ApplicationSet that makes an Application for each app on each cluster, and a
// webhook of the Git host after each commit. The webhook names the changed files, and Argo CD looks only at the
// Applications that they belong to, as its documentation advises for a repository of many apps.
func ArgoWebhook() EdgeMaker {
	return EdgeMaker{Name: "Argo CD, ApplicationSet, webhook", New: func(dir string) Edge { return newArgoEdge(dir, true) }}
}

// ArgoPolling is the same without webhooks: Argo CD looks at Git every two to three minutes, its default, and remembers what
// it saw for three, so a change takes up to six. It makes one, and only in small fleets.
func ArgoPolling() EdgeMaker {
	return EdgeMaker{Name: "Argo CD, ApplicationSet, polling by default", Changes: 1, Most: 3, New: func(dir string) Edge { return newArgoEdge(dir, false) }}
}

// argoPatience is more than two of Argo CD's default periods.
const argoPatience = 8 * time.Minute

type argoEdge struct {
	siteOrigin
	hooks    bool
	spec     world.Spec
	hub      realCluster // its agent is Argo CD
	argo     *argocd.ArgoCD
	clusters realClusters
}

func newArgoEdge(dir string, hooks bool) *argoEdge {
	return &argoEdge{
		siteOrigin: siteOrigin{dir: filepath.Join(dir, "origin")}, hooks: hooks,
		hub: realCluster{dir: filepath.Join(dir, "hub")}, clusters: realClusters{dir: dir, patience: argoPatience},
	}
}

func (e *argoEdge) Prepare(ctx context.Context, s world.Spec, _ time.Duration) (err error) {
	e.spec = s
	if err := e.open(ctx, nil); err != nil {
		return err
	}
	if err := e.hub.start(ctx); err != nil {
		return err
	}
	if e.argo, err = argocd.StartHub(ctx, e.hub.cluster); err != nil {
		return err
	}
	e.hub.agent = e.argo
	user, password := e.site.Credential()
	if err := e.hub.cluster.Apply(ctx, fmt.Sprintf(argoRepository, e.url(), user, password)); err != nil {
		return err
	}
	return e.clusters.start(ctx, s.Clusters, func(ctx context.Context, i int, c *cluster.Cluster) (agent, error) {
		return nil, e.argo.Register(ctx, world.Cluster(i), c)
	})
}

func (e *argoEdge) url() string { return e.site.Server.URL(site.Repository) }

const argoRepository = `apiVersion: v1
kind: Secret
metadata:
  name: fleet
  namespace: argocd
  labels: {argocd.argoproj.io/secret-type: repository}
stringData: {type: git, url: %s, username: %s, password: %s}
`

// applicationSet makes an Application for each app on each registered cluster.
func applicationSet(url string, s world.Spec) string {
	var apps []string
	for a := range s.Apps {
		apps = append(apps, fmt.Sprintf("{app: %s}", world.App(a)))
	}
	return fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: fleet, namespace: argocd}
spec:
  goTemplate: true
  goTemplateOptions: [missingkey=error]
  generators:
  - matrix:
      generators:
      - clusters: {selector: {matchLabels: {argocd.argoproj.io/secret-type: cluster}}}
      - list: {elements: [%s]}
  template:
    metadata:
      name: '{{.name}}-{{.app}}'
      annotations: {argocd.argoproj.io/manifest-generate-paths: .}
    spec:
      project: default
      source: {repoURL: %s, targetRevision: %s, path: 'apps/{{.app}}'}
      destination: {server: '{{.server}}', namespace: default}
      syncPolicy: {automated: {prune: true, selfHeal: true}}
`, strings.Join(apps, ", "), url, site.Branch)
}

func (e *argoEdge) Converge(ctx context.Context, t Turn) (time.Duration, error) {
	files := map[string]gittest.File{}
	for _, pair := range t.Pairs {
		for name, text := range pair.Files {
			files["apps/"+pair.App+"/"+name] = gittest.File{Content: string(text)}
		}
	}
	before, err := e.site.Bare.Ref("refs/heads/" + site.Branch)
	if err != nil {
		return 0, err
	}
	after, err := e.site.Bare.CommitExternal(ctx, site.Branch, files)
	if err != nil {
		return 0, err
	}
	durable := time.Now()
	switch {
	case t.Kind == world.Install:
		err = e.hub.cluster.Apply(ctx, applicationSet(e.url(), e.spec))
	case e.hooks:
		err = announce(ctx, e.argo.Webhook(), pushEvent(e.url(), before, after, slices.Sorted(maps.Keys(files))))
	}
	if err != nil {
		return 0, err
	}
	return e.clusters.live(ctx, t.World, durable)
}

// pushEvent is what GitHub says of a push.
func pushEvent(url, before, after string, files []string) any {
	type repository struct {
		HTMLURL       string `json:"html_url"`
		DefaultBranch string `json:"default_branch"`
	}
	type commit struct {
		ID       string   `json:"id"`
		Modified []string `json:"modified"`
	}
	return struct {
		Ref        string     `json:"ref"`
		Before     string     `json:"before"`
		After      string     `json:"after"`
		Repository repository `json:"repository"`
		Commits    []commit   `json:"commits"`
	}{"refs/heads/" + site.Branch, before, after, repository{strings.TrimSuffix(url, ".git"), site.Branch}, []commit{{after, files}}}
}

// announce posts an event as GitHub does.
func announce(ctx context.Context, url string, event any) error {
	text, err := json.Marshal(event)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-GitHub-Event", "push")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, most))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("the webhook was answered %s: %.300s", res.Status, answer)
	}
	return err
}

func (e *argoEdge) Processes() Processes { return Processes{Control: e.hub.control()} }

func (e *argoEdge) Close(ctx context.Context) error {
	e.hub.stop()
	e.clusters.stop()
	return e.siteOrigin.Close(ctx)
}
