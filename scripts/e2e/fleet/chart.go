package fleet

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Chart is a Helm chart in memory.
type Chart struct {
	Name    string
	Files   map[string]string // below the chart's folder
	Profile map[string]string // files of the profile in addition to its manifest.yaml; override_values.yaml is optional
}

// Synthetic returns a chart of a Deployment, a Service and enough ConfigMaps for the given number of
// resources.
func Synthetic(name string, resources int) Chart {
	c := Chart{Name: name, Files: map[string]string{
		"Chart.yaml":                "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n",
		"values.yaml":               "replicas: 1\ncolour: blue\n",
		"templates/deployment.yaml": fmt.Sprintf(deployment, name),
		"templates/service.yaml":    fmt.Sprintf(service, name),
	}}
	for i := range resources - 2 {
		c.Files[fmt.Sprintf("templates/config-%02d.yaml", i)] = fmt.Sprintf(configMap, name, i)
	}
	return c
}

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}-%[1]s, labels: {app: %[1]s}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: "{{ .Release.Name }}-%[1]s"}}
  template:
    metadata: {labels: {app: "{{ .Release.Name }}-%[1]s"}}
    spec: {containers: [{name: main, image: "registry.example.com/%[1]s:1.0"}]}
`

const service = `apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}-%[1]s}
spec: {selector: {app: "{{ .Release.Name }}-%[1]s"}, ports: [{port: 80}]}
`

const configMap = `apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-%[1]s-%02[2]d}
data:
  colour: {{ .Values.colour | quote }}
  number: "%[2]d"
  text: |
    {{- range until 12 }}
    line {{ . }} of setting %[2]d of {{ $.Chart.Name }}
    {{- end }}
`

// FromFolder reads a chart from a folder of the same name.
func FromFolder(folder string) (Chart, error) {
	c := Chart{Name: filepath.Base(folder), Files: map[string]string{}}
	root := os.DirFS(folder)
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, path)
		c.Files[path] = string(text)
		return err
	})
	return c, err
}

// With returns the chart with one file added or changed.
func (c Chart) With(path, text string) Chart {
	c.Files = maps.Clone(c.Files)
	c.Files[path] = text
	return c
}

// Archive returns the chart in the format of the API.
func (c Chart) Archive() ([]byte, error) {
	files := map[string]string{}
	for path, text := range c.Files {
		files[c.Name+"/"+path] = text
	}
	return pack(files)
}

// ProfileArchive returns the profile in the format of the API.
func (c Chart) ProfileArchive() ([]byte, error) {
	files := map[string]string{
		"manifest.yaml":        "version: v1\ntype:\n  values: override_values.yaml\n",
		"override_values.yaml": "{}\n",
	}
	maps.Copy(files, c.Profile)
	return pack(files)
}

// pack writes a gzip-compressed tar.
func pack(files map[string]string) ([]byte, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		head := &tar.Header{Name: path, Mode: 0o644, Size: int64(len(files[path])), Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := archive.Write([]byte(files[path])); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
