// Package inventory is what a simulated cluster holds: the objects of a folder, as a
// reconciler would apply them. Nothing is kept of them but who they are and which content
// they have; folders and objects that are equal are kept once for all clusters.
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

// Digest identifies what a folder holds.
type Digest [sha256.Size]byte

// Folder is what Git holds for a cluster, in order of paths.
type Folder struct {
	Digest  Digest
	Entries []Entry
}

// NewFolder returns a folder of entries, which are in order.
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
	Label string // of the deployment and app, if it has one
	path  string // that a Kustomization applies
}

// App is what a cluster holds of one app.
type App struct {
	Label   string
	Objects []status.Object // all well; not to be changed
}

// Held is what a cluster holds.
type Held struct {
	Flux bool // pointers of Flux decide what is applied
	Apps []App
}

// Objects counts the objects of all apps.
func (h *Held) Objects() (n int) {
	for _, a := range h.Apps {
		n += len(a.Objects)
	}
	return n
}

// Objects keeps what was read of files, by the names that Git gives to contents. It may be
// used by several goroutines.
type Objects struct {
	limit int

	mu   sync.Mutex
	read map[git.Hash][]Object
}

// NewObjects returns an empty cache that forgets when it has more files than limit.
func NewObjects(limit int) *Objects {
	return &Objects{limit: limit, read: map[git.Hash][]Object{}}
}

// Missing lists the files of a folder that were not read yet, each once.
func (o *Objects) Missing(f *Folder) []git.Hash {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []git.Hash
	for _, e := range f.Entries {
		if _, known := o.read[e.ID]; !known && manifest(e.Path) && !slices.Contains(out, e.ID) {
			out = append(out, e.ID)
		}
	}
	return out
}

// Add reads files. One that holds no objects, or is none, holds nothing.
func (o *Objects) Add(files map[git.Hash][]byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.read)+len(files) > o.limit {
		clear(o.read)
	}
	for id, text := range files {
		o.read[id] = Parse(text)
	}
}

// manifest says whether a reconciler looks into a file.
func manifest(path string) bool {
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
			parsed.path = strings.TrimPrefix(o.Spec.Path, "./")
		}
		out = append(out, parsed)
	}
	return out
}

// Apply returns what a cluster holds that has applied a folder. Where the folder holds
// pointers of Flux, those say which folders are applied; else all apps are. root is the
// cluster's folder in the repository. ok is false if files of the folder were not read.
func (o *Objects) Apply(root string, f *Folder) (held *Held, ok bool) {
	if len(o.Missing(f)) > 0 {
		return nil, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	apps := map[string]*App{}
	pointers := o.pointers(f)
	for _, p := range pointers {
		put(apps, p.Label, p.Object)
		for _, e := range f.Entries {
			if strings.HasPrefix(root+"/"+e.Path, p.path+"/") {
				o.take(apps, p.Label, e)
			}
		}
	}
	if len(pointers) == 0 {
		for _, e := range f.Entries {
			if label, is := labelOf(e.Path); is {
				o.take(apps, label, e)
			}
		}
	}
	return &Held{Flux: len(pointers) > 0, Apps: sorted(apps)}, true
}

// pointers are the Kustomizations at the top of a folder. The caller holds mu.
func (o *Objects) pointers(f *Folder) (out []Object) {
	for _, e := range f.Entries {
		if strings.Contains(e.Path, "/") {
			continue
		}
		for _, x := range o.read[e.ID] {
			if x.path != "" {
				out = append(out, x)
			}
		}
	}
	return out
}

// take adds the objects of a file, to the app that their label says, else to the given one.
func (o *Objects) take(apps map[string]*App, label string, e Entry) {
	for _, x := range o.read[e.ID] {
		if x.Label != "" {
			label = x.Label
		}
		put(apps, label, x.Object)
	}
}

func put(apps map[string]*App, label string, x status.Object) {
	if apps[label] == nil {
		apps[label] = &App{Label: label}
	}
	apps[label].Objects = append(apps[label].Objects, x)
}

// labelOf is the label of an app by the path of one of its files:
// context/<id>/app/<app>/<file>.
func labelOf(path string) (string, bool) {
	part := strings.Split(path, "/")
	if len(part) != 5 || part[0] != "context" || part[2] != "app" || !manifest(path) {
		return "", false
	}
	return part[1] + "-" + part[3], true
}

// sorted puts apps and objects in the order of reports.
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
