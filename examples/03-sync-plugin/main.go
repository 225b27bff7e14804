// Command main is an external sync backend: it makes kapp-controller reconcile the files that
// EMCO writes to Git. It reads one question from stdin and writes one answer to stdout, as
// docs/backends/exec.md describes. It needs only the standard library.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// question is a request of EMCO: "describe" when it registers a cluster, "plan" for each
// deployment on it.
type question struct {
	Ask     string            `json:"ask"`
	Options map[string]string `json:"options"` // the keys of the cluster's sync objects
	Target  target            `json:"target"`
	Objects []object          `json:"objects"`
}

type target struct {
	Deployment string `json:"deployment"`
	Namespace  string `json:"namespace"`
	Root       string `json:"root"` // the cluster's directory
	Dir        string `json:"dir"`  // the deployment's directory in it
	URL        string `json:"url"`
	Branch     string `json:"branch"`
}

type object struct {
	App     string `json:"app"`
	File    string `json:"file"`    // its path in EMCO's layout, below dir
	Content string `json:"content"` // as EMCO writes it
}

// answer is a description, a plan or a refusal.
type answer struct {
	Pointers []string `json:"pointers,omitempty"`
	Edits    []edit   `json:"edits,omitempty"`
	Error    string   `json:"error,omitempty"`
}

// edit writes a file or a directory to a path; with neither it removes the path.
type edit struct {
	Path    string            `json:"path"`
	Content string            `json:"content,omitempty"`
	Files   map[string]string `json:"files,omitempty"`
}

func main() {
	var q question
	if err := json.NewDecoder(os.Stdin).Decode(&q); err != nil {
		fail(err)
	}
	a, err := reply(q)
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(a); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func reply(q question) (answer, error) {
	switch {
	case q.Options["serviceAccountName"] == "":
		return answer{Error: "serviceAccountName is missing: kapp-controller applies nothing without an account"}, nil
	case q.Ask == "describe":
		return answer{Pointers: []string{"kapp"}}, nil
	}
	pointer, err := apps(q)
	if err != nil {
		return answer{}, err
	}
	files := map[string]string{}
	for _, o := range q.Objects {
		files[o.File] = o.Content
	}
	return answer{Edits: []edit{
		{Path: q.Target.Root + "/kapp" + q.Target.Deployment + ".yaml", Content: pointer},
		{Path: q.Target.Dir, Files: files},
	}}, nil
}

// apps returns an App for each app of the deployment, as JSON, which is also YAML.
func apps(q question) (string, error) {
	var names []string
	for _, o := range q.Objects {
		names = append(names, o.App)
	}
	slices.Sort(names)
	var documents []string
	for _, name := range slices.Compact(names) {
		text, err := json.MarshalIndent(app(q, name), "", "  ")
		if err != nil {
			return "", err
		}
		documents = append(documents, string(text)+"\n")
	}
	return strings.Join(documents, "---\n"), nil
}

type members = map[string]any

func app(q question, name string) members {
	git := members{"url": q.Target.URL, "ref": "origin/" + q.Target.Branch, "subPath": q.Target.Dir + "/app/" + name}
	if secret := q.Options["secretRef"]; secret != "" {
		git["secretRef"] = members{"name": secret}
	}
	return members{
		"apiVersion": "kappctrl.k14s.io/v1alpha1",
		"kind":       "App",
		"metadata":   members{"name": "emco-" + q.Target.Deployment + "-" + strings.ToLower(name), "namespace": q.Target.Namespace},
		"spec": members{
			"serviceAccountName": q.Options["serviceAccountName"],
			"syncPeriod":         q.Options["syncInterval"],
			"fetch":              []members{{"git": git}},
			"template":           []members{{"ytt": members{}}},
			"deploy":             []members{{"kapp": members{}}},
		},
	}
}
