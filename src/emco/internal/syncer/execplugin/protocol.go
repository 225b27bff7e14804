package execplugin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/git"
)

// version is that of the protocol.
const version = 1

// The requests.
const (
	requestDescribe = "describe" // list the pointer files and validate the options
	requestPlan     = "plan"     // plan the files of a target
)

// request is what an executable reads.
type request struct {
	Version int               `json:"version"`
	Kind    string            `json:"ask"`
	Options map[string]string `json:"options"`
	Target  *target           `json:"target,omitempty"`
	Objects []object          `json:"objects,omitzero"`
}

// target is a syncer.Target with the paths that follow from it.
type target struct {
	Cluster    v2.ClusterKey   `json:"cluster"`
	Deployment v2.DeploymentID `json:"deployment"`
	Namespace  string          `json:"namespace,omitempty"`
	Cloud      string          `json:"logicalCloud,omitempty"`
	Confined   bool            `json:"confined,omitempty"`
	Account    string          `json:"serviceAccountName,omitempty"`
	Root       string          `json:"root"`
	Dir        string          `json:"dir"`
	URL        string          `json:"url"`
	Branch     string          `json:"branch"`
}

// object is one object with its file in upstream's layout.
type object struct {
	App        string          `json:"app"`
	File       string          `json:"file"` // relative to the target's dir
	Definition bool            `json:"definition,omitempty"`
	Manifest   json.RawMessage `json:"manifest"`
	Content    string          `json:"content"` // of the file
}

// response is what an executable writes. Error is why it refuses; App and Object are the
// subject of the refusal.
type response struct {
	Pointers []string     `json:"pointers"`
	Edits    []pluginEdit `json:"edits"`
	Error    string       `json:"error"`
	App      string       `json:"app"`
	Object   string       `json:"object"`
}

// pluginEdit makes a path hold a file or a directory of files, or nothing.
type pluginEdit struct {
	Path    string            `json:"path"`
	Content *string           `json:"content"`
	Files   map[string]string `json:"files"`
}

// planRequest returns the request for a plan. Objects are sorted by file, so that equal sets
// make equal requests.
func (b backend) planRequest(t syncer.Target, apps []syncer.App) (request, error) {
	q := request{Kind: requestPlan, Target: &target{
		Cluster: t.Cluster, Deployment: t.Deployment, Namespace: t.Namespace,
		Cloud: t.Cloud.Name, Confined: t.Cloud.Confined, Account: t.Cloud.Account,
		Root: t.Root(), Dir: t.Dir(), URL: t.Repo.URL, Branch: t.Repo.Branch,
	}, Objects: []object{}}
	files, err := b.writer.Tree(apps)
	if err != nil {
		return q, err
	}
	for _, a := range apps {
		named, err := a.Files()
		if err != nil {
			return q, err
		}
		for _, f := range named {
			name := "app/" + a.Name + "/" + f.Name
			q.Objects = append(q.Objects, object{
				App: a.Name, File: name, Definition: f.CRD, Manifest: f.Object.Content, Content: string(files[name]),
			})
		}
	}
	slices.SortFunc(q.Objects, func(x, y object) int { return cmp.Compare(x.File, y.File) })
	return q, nil
}

// read reads a response, strictly: an unknown member is an error.
func read(text []byte) (response, error) {
	var a response
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return a, fmt.Errorf("its response is not valid: %w", err)
	}
	if d.More() {
		return a, errors.New("it wrote more than one response")
	}
	return a, nil
}

// refusal returns why an executable refuses, nil if it does not.
func (r runner) refusal(a response) error {
	if a.Error == "" {
		return nil
	}
	subject := "sync plugin " + r.name
	if a.App != "" {
		subject += ": app " + a.App
	}
	if a.Object != "" {
		subject += ": " + a.Object
	}
	return errs.E(errs.Invalid, "plan", line(r.scrub(subject)), errors.New(line(r.scrub(a.Error))))
}

// change returns the plan in a response, sorted by path.
func (a response) change() (syncer.Change, error) {
	var c syncer.Change
	for _, e := range a.Edits {
		if e.Content != nil && len(e.Files) > 0 {
			return c, fmt.Errorf("%q has both content and files", e.Path)
		}
		out := git.Edit{Path: e.Path}
		if e.Content != nil {
			out.File = []byte(*e.Content)
		}
		for name, content := range e.Files {
			if out.Dir == nil {
				out.Dir = map[string][]byte{}
			}
			out.Dir[name] = []byte(content)
		}
		c.Edits = append(c.Edits, out)
	}
	slices.SortFunc(c.Edits, func(x, y git.Edit) int { return cmp.Compare(x.Path, y.Path) })
	return c, nil
}
