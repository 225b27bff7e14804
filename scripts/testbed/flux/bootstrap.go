package flux

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Sync is the repository and the folder that a cluster follows.
type Sync struct {
	URL      string        // http or https
	Branch   string        // empty means main
	Path     string        // folder in the repository; empty means its root
	Interval time.Duration // between two looks at the branch; 0 means 1 s
	Drift    time.Duration // between two comparisons with the cluster; 0 means Interval
	User     string        // basic auth; empty means none
	Password string
}

// Bootstrap does the same to the cluster as "flux bootstrap": it creates, or changes, the Secret,
// GitRepository and Kustomization flux-system in namespace flux-system. It does not wait for them and
// writes nothing to the repository.
func (f *Flux) Bootstrap(ctx context.Context, s Sync) error {
	manifest, err := s.manifest()
	if err != nil {
		return err
	}
	return f.Cluster().Apply(ctx, manifest)
}

// manifest returns the objects as a JSON list, which is also YAML.
func (s Sync) manifest() (string, error) {
	if s.URL == "" {
		return "", errors.New("bootstrap needs the url of a repository")
	}
	if s.Branch == "" {
		s.Branch = "main"
	}
	if s.Interval == 0 {
		s.Interval = time.Second
	}
	var items []jsonObject
	if s.User != "" {
		items = append(items, s.secret())
	}
	list := jsonObject{"apiVersion": "v1", "kind": "List", "items": append(items, s.repository(), s.kustomization())}
	data, err := json.Marshal(list)
	return string(data), err
}

type jsonObject map[string]any

func (s Sync) secret() jsonObject {
	return jsonObject{
		"apiVersion": "v1", "kind": "Secret", "metadata": meta(), "type": "Opaque",
		"stringData": jsonObject{"username": s.User, "password": s.Password},
	}
}

func (s Sync) repository() jsonObject {
	spec := jsonObject{
		"url": s.URL, "interval": inMillis(s.Interval), "timeout": "60s",
		"ref": jsonObject{"branch": s.Branch},
	}
	if s.User != "" {
		spec["secretRef"] = jsonObject{"name": Namespace}
	}
	return jsonObject{"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": meta(), "spec": spec}
}

func (s Sync) kustomization() jsonObject {
	return jsonObject{
		"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": meta(),
		"spec": jsonObject{
			"interval": inMillis(cmp.Or(s.Drift, s.Interval)), "retryInterval": inMillis(s.Interval), "prune": true, "path": "./" + s.Path,
			"sourceRef": jsonObject{"kind": "GitRepository", "name": Namespace},
		},
	}
}

// inMillis returns a time in Flux's format.
func inMillis(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

func meta() jsonObject { return jsonObject{"name": Namespace, "namespace": Namespace} }
