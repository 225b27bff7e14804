// Package inventory computes which objects a simulated cluster has after a reconciler has
// applied a folder. Of an object it keeps the identity, the deployment, the status and the content stamp, not the manifest.
// Equal folders and objects are kept once for all clusters.
package inventory

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/git"
)

// Entry is a file below the folder of a cluster.
type Entry struct {
	Path string // relative to it
	ID   git.Hash
}

// Digest identifies the content of a folder.
type Digest [sha256.Size]byte

// Folder is the content of a cluster's folder in Git, sorted by path.
type Folder struct {
	Digest  Digest
	Entries []Entry
}

// NewFolder returns a folder of entries, which must be sorted.
func NewFolder(entries []Entry) *Folder {
	sum := sha256.New()
	for _, e := range entries {
		sum.Write([]byte(e.Path + "\x00" + string(e.ID) + "\x00"))
	}
	f := &Folder{Entries: entries}
	sum.Sum(f.Digest[:0])
	return f
}

// Object is one object of a file.
type Object struct {
	status.Object
	Label      string // of the deployment and app; may be empty
	sourcePath string // the folder that a Kustomization applies
}

// App is one app on a cluster.
type App struct {
	Label   string
	Objects []status.Object // all Current; shared, so do not change them
}

// State is what is on a cluster.
type State struct {
	Flux bool // Kustomizations decide what is applied
	Apps []App
}

// Objects counts the objects of all apps.
func (h *State) Objects() (n int) {
	for _, a := range h.Apps {
		n += len(a.Objects)
	}
	return n
}

// ObjectCache keeps the objects in files, by blob id. Several goroutines may use it.
type ObjectCache struct {
	limit int

	mu    sync.Mutex
	files map[git.Hash][]Object // guarded by mu
}

// NewObjectCache returns an empty cache. It drops all files when it would have more than limit.
func NewObjectCache(limit int) *ObjectCache {
	return &ObjectCache{limit: limit, files: map[git.Hash][]Object{}}
}

// Missing lists the files of a folder that are not in the cache, each once.
func (o *ObjectCache) Missing(f *Folder) []git.Hash {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []git.Hash
	for _, e := range f.Entries {
		if _, known := o.files[e.ID]; !known && isManifest(e.Path) && !slices.Contains(out, e.ID) {
			out = append(out, e.ID)
		}
	}
	return out
}

// Add parses files. A file that is not a manifest has no objects.
func (o *ObjectCache) Add(files map[git.Hash][]byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.files)+len(files) > o.limit {
		clear(o.files)
	}
	for id, text := range files {
		o.files[id] = Parse(text)
	}
}

// isManifest reports whether a reconciler reads a file.
func isManifest(path string) bool {
	return strings.HasSuffix(path, ".yaml") && !strings.HasSuffix(path, "/kustomization.yaml")
}

const fluxGroup = "kustomize.toolkit.fluxcd.io"

// Parse returns the objects of a file of manifests.
func Parse(text []byte) (out []Object) {
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var o struct {
			APIVersion, Kind string
			Metadata         struct {
				Name, Namespace     string
				Labels, Annotations map[string]string
			}
			Spec struct{ Path string }
		}
		if yaml.Unmarshal(document, &o) != nil || o.Kind == "" || o.Metadata.Name == "" {
			continue
		}
		group, version, grouped := strings.Cut(o.APIVersion, "/")
		if !grouped {
			group, version = "", o.APIVersion
		}
		parsed := Object{Label: o.Metadata.Labels[status.DeploymentLabel], Object: status.Object{
			Group: group, Version: version, Kind: o.Kind, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name,
			Status: status.Current, Content: o.Metadata.Annotations[status.ContentAnnotation],
		}}
		if group == fluxGroup && o.Kind == "Kustomization" {
			parsed.sourcePath = strings.TrimPrefix(o.Spec.Path, "./")
		}
		out = append(out, parsed)
	}
	return out
}

// Apply returns the state of a cluster that has applied a folder. If the folder has
// Kustomizations, they select the folders to apply; otherwise all apps are applied. root is
// the cluster's folder in the repository. ok is false if files are missing in the cache.
func (o *ObjectCache) Apply(root string, f *Folder) (state *State, ok bool) {
	if len(o.Missing(f)) > 0 {
		return nil, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	apps := map[string]*App{}
	kustomizations := o.kustomizationsLocked(f)
	for _, p := range kustomizations {
		addObject(apps, p.Label, p.Object)
		for _, e := range f.Entries {
			if strings.HasPrefix(root+"/"+e.Path, p.sourcePath+"/") {
				o.addFileLocked(apps, p.Label, e)
			}
		}
	}
	if len(kustomizations) == 0 {
		for _, e := range f.Entries {
			if label, is := labelOf(e.Path); is {
				o.addFileLocked(apps, label, e)
			}
		}
	}
	return &State{Flux: len(kustomizations) > 0, Apps: sorted(apps)}, true
}

// kustomizationsLocked returns the Kustomizations at the top of a folder.
func (o *ObjectCache) kustomizationsLocked(f *Folder) (out []Object) {
	for _, e := range f.Entries {
		if strings.Contains(e.Path, "/") {
			continue
		}
		for _, x := range o.files[e.ID] {
			if x.sourcePath != "" {
				out = append(out, x)
			}
		}
	}
	return out
}

// addFileLocked adds the objects of a file to the app of their label, or else to the given one.
func (o *ObjectCache) addFileLocked(apps map[string]*App, label string, e Entry) {
	for _, x := range o.files[e.ID] {
		if x.Label != "" {
			label = x.Label
		}
		addObject(apps, label, x.Object)
	}
}

func addObject(apps map[string]*App, label string, x status.Object) {
	if apps[label] == nil {
		apps[label] = &App{Label: label}
	}
	apps[label].Objects = append(apps[label].Objects, x)
}

// labelOf returns the label of an app from the path of one of its files,
// context/<id>/app/<app>/<file>.
func labelOf(path string) (string, bool) {
	part := strings.Split(path, "/")
	if len(part) != 5 || part[0] != "context" || part[2] != "app" || !isManifest(path) {
		return "", false
	}
	return part[1] + "-" + part[3], true
}

// sorted sorts apps and objects as reports do.
func sorted(apps map[string]*App) (out []App) {
	for _, a := range apps {
		slices.SortFunc(a.Objects, func(x, y status.Object) int {
			return strings.Compare(x.Group+"\x00"+x.Kind+"\x00"+x.Namespace+"\x00"+x.Name, y.Group+"\x00"+y.Kind+"\x00"+y.Namespace+"\x00"+y.Name)
		})
		out = append(out, *a)
	}
	slices.SortFunc(out, func(x, y App) int { return strings.Compare(x.Label, y.Label) })
	return out
}
