package helm

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/emco-orchestrator/emco/src/emco/internal/tarball"
)

// chartSources are the input files of a rendering.
type chartSources struct {
	chart      tarball.Tree // below the chart's directory
	valuesFile string       // of the profile; empty for none
	values     []byte
}

// sub returns the files below a directory, by their path within it.
func sub(files tarball.Tree, dir string) tarball.Tree {
	out := tarball.Tree{}
	for name, content := range files {
		if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
			out[rest] = content
		}
	}
	return out
}

// apply reads a profile's values and copies its files into the chart.
func (s *chartSources) apply(app string, profile tarball.Tree) error {
	p, err := tarball.ReadProfile(profile)
	if err != nil {
		return err
	}
	s.valuesFile, s.values = p.Values, profile[p.Values]
	for _, c := range p.Copies {
		to, ok := strings.CutPrefix(c.To, app+"/")
		if !ok {
			return fmt.Errorf("profile: manifest.yaml: chartpath %q must lie in the chart's directory, %s", c.To, app)
		}
		if clash, ok := blocks(s.chart, to); ok {
			return fmt.Errorf("profile: manifest.yaml: chartpath %q cannot be written, since the chart has %q", c.To, app+"/"+clash)
		}
		s.chart[to] = profile[c.From]
	}
	return nil
}

// blocks returns a file of the chart that is a directory of path to, or lies below it.
func blocks(files tarball.Tree, to string) (string, bool) {
	for dir := path.Dir(to); dir != "."; dir = path.Dir(dir) {
		if _, ok := files[dir]; ok {
			return dir, true
		}
	}
	for name := range maps.Keys(files) {
		if strings.HasPrefix(name, to+"/") {
			return to, true
		}
	}
	return "", false
}

// maxNested bounds the nesting of packed sub-charts.
const maxNested = 5

// load builds a chart. It unpacks packed sub-charts itself, because Helm has no limits of
// ours; all of them share one budget.
func load(files tarball.Tree, l tarball.Limits) (*chart.Chart, error) {
	u := chartUnpacker{limits: l, left: l.Expanded}
	files, err := u.unpack(ignore(files), 0)
	if err != nil {
		return nil, err
	}
	var buffered []*loader.BufferedFile
	for _, name := range files.Names() {
		buffered = append(buffered, &loader.BufferedFile{Name: name, Data: bytes.TrimPrefix(files[name], []byte("\xef\xbb\xbf"))})
	}
	return loader.LoadFiles(buffered)
}

type chartUnpacker struct {
	limits tarball.Limits
	left   int64 // bytes that archives may still expand to
}

// unpack replaces charts/*.tgz by their content, at each level.
func (u *chartUnpacker) unpack(files tarball.Tree, depth int) (tarball.Tree, error) {
	out := tarball.Tree{}
	for _, name := range files.Names() {
		if !packed(name) {
			out[name] = files[name]
			continue
		}
		inner, err := u.open(name, files[name], depth)
		if err != nil {
			return nil, fmt.Errorf("sub-chart %s: %w", name, err)
		}
		for file, content := range inner {
			out[strings.TrimSuffix(name, ".tgz")+"-unpacked/"+file] = content
		}
	}
	return out, nil
}

// packed reports whether a file of a chart is a packed sub-chart: *.tgz in the
// directory charts of the chart, or of a sub-chart. Helm skips names that begin
// with "_" or ".".
func packed(name string) bool {
	dir, base := path.Split(name)
	if !strings.HasSuffix(base, ".tgz") || strings.HasPrefix(base, "_") || strings.HasPrefix(base, ".") {
		return false
	}
	parts := strings.Split(strings.TrimSuffix(dir, "/"), "/")
	for i, p := range parts {
		if i%2 == 0 && p != "charts" {
			return false
		}
	}
	return len(parts)%2 == 1
}

// open reads one packed sub-chart, which has one directory at its top.
func (u *chartUnpacker) open(name string, data []byte, depth int) (tarball.Tree, error) {
	if depth >= maxNested {
		return nil, fmt.Errorf("archives lie more than %d deep in each other", maxNested)
	}
	l := u.limits
	l.Expanded = u.left
	files, err := tarball.Files(bytes.NewReader(data), l)
	if err != nil {
		return nil, err
	}
	tops := map[string]bool{}
	for file, content := range files {
		top, _, _ := strings.Cut(file, "/")
		tops[top] = true
		u.left -= int64(len(content)) + 1024 // the overhead of a file
	}
	if len(tops) != 1 {
		return nil, fmt.Errorf("%s must hold one directory at its top", path.Base(name))
	}
	for top := range tops {
		files = sub(files, top)
	}
	return u.unpack(ignore(files), depth+1)
}
