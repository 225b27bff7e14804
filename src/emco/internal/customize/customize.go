// Package customize defines action controllers, which change what apps put on clusters. Most packages
// below it are controllers; hpa is a placement controller too. A controller returns edits: objects, patches and
// override values. The package itself makes edits of a group's own override values that differ by cluster (values.go),
// fetches values of patches from URLs (fetch.go), and applies objects and patches to what was rendered (apply.go). Override values
// go to the renderer instead. Clusters of an app with
// equal edits are a class: they share one rendering and one bundle.
package customize

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/patch"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Controller is an action controller. Group intents name it and an intent of it.
type Controller interface {
	// Customize returns the edits of an intent. It changes nothing. Equal documents and equal
	// deployments give equal edits in the same order. Errors concern the whole deployment; they
	// are Invalid or NotFound if users can correct the cause.
	Customize(ctx context.Context, d Deployment) (Edits, error)
}

// Deployment is what a controller knows of a deployment.
type Deployment struct {
	Group     string // path of the deployment intent group, "projects/…"
	Intent    string // name of the controller's intent
	Namespace string // of objects that name none
	Apps      []App  // in order of name
	Inventory placement.Inventory
	KeyValues KeyValuesOf // of the clusters
}

// App returns an app of the deployment; one without clusters if it is not deployed.
func (d Deployment) App(name string) App {
	if i := slices.IndexFunc(d.Apps, func(a App) bool { return a.Name == name }); i >= 0 {
		return d.Apps[i]
	}
	return App{Name: name}
}

// CheckIntent returns an error that is Invalid if the controller's intent, a document of the kind in a collection
// below the group, does not exist.
func (d Deployment) CheckIntent(ctx context.Context, db *store.DB, kind, collection string) error {
	_, err := db.Get(ctx, store.Key(d.Group+"/"+collection+"/"+d.Intent))
	if errs.Is(err, errs.NotFound) {
		return errs.New(errs.Invalid, fmt.Sprintf("%s not found: %s; add it below %s/%s", kind, d.Intent, d.Group, collection))
	}
	return err
}

// Origin returns a document below the group as messages name it.
func (d Deployment) Origin(key store.Key) string { return strings.TrimPrefix(string(key), d.Group+"/") }

// ObjectName returns the name of the objects of a document: those of other deployments in the same namespace
// differ.
func ObjectName(key string) string {
	sum := sha256.Sum256([]byte(key))
	base := strings.Map(func(r rune) rune {
		if r == '_' || r == '.' {
			return '-'
		}
		return r
	}, strings.ToLower(path.Base(key)))
	return base + "-" + hex.EncodeToString(sum[:4])
}

// App is an app and the clusters that it goes to, sorted.
type App struct {
	Name     string
	Clusters []v2.ClusterKey
}

// Edits are what a controller answers.
type Edits struct {
	Edits    []Edit // in order of application
	Findings []Finding
}

// Finding is a warning for users.
type Finding struct{ App, Text string }

// Edit is one change to an app on some of its clusters. Exactly one of Values, Object,
// Patch and Encryption is set.
type Edit struct {
	App      string
	Clusters []v2.ClusterKey // sorted, each once; nil: all clusters of the app
	Origin   string          // the document that asks for it, for messages

	Values     []render.Override // set after the values of charts, profiles and groups
	Object     []byte            // a text with one object, which is added
	Patch      *Patch
	Encryption *Encryption // comes after all others
}

// Encryption has the values of Secrets encrypted, see Class.Encryption.
type Encryption struct {
	Recipients []string // public keys of age, sorted; none: the clusters read files and have none
}

// Patch changes the objects of an app that have a kind and a name. An app without such an
// object stays as it is, with a finding.
type Patch struct {
	Target Target
	Type   patch.Type
	Text   []byte // JSON

	// Fetches are values of a JSON patch that are not in Text yet; see Resolve.
	Fetches []Fetch `json:",omitempty"`
}

// Target names objects to patch. APIVersion decides only between objects with equal kinds and
// names.
type Target struct{ APIVersion, Kind, Name string }

// String returns "Kind name".
func (t Target) String() string { return t.Kind + " " + t.Name }

// PodPatch returns a patch of the pods that a workload makes; pod is the JSON of what changes in them. It is nil
// if EMCO does not know where the kind has its pods.
func (t Target) PodPatch(pod []byte) *Patch {
	template, known := manifest.PodTemplate(t.Kind)
	if !known {
		return nil
	}
	for _, member := range slices.Backward(template) {
		pod = fmt.Appendf(nil, `{%q:%s}`, member, pod)
	}
	return &Patch{Target: t, Type: patch.Strategic, Text: pod}
}

// Digest is equal for edits that change the same things in the same way. It does not cover App,
// Clusters and Origin.
func (e Edit) Digest() manifest.Digest {
	text, err := json.Marshal(struct {
		Values     []render.Override `json:",omitempty"`
		Object     []byte            `json:",omitempty"`
		Patch      *Patch            `json:",omitempty"`
		Encryption *Encryption       `json:"Seal,omitempty"` // by its former name: the digests of stored classes hold it
	}{e.Values, e.Object, e.Patch, e.Encryption})
	if err != nil {
		panic("customize: an edit that has no JSON form: " + err.Error()) // strings and bytes only
	}
	return manifest.DigestOf(text)
}
