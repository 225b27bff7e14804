package helm

import (
	"bytes"
	"path"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/tarball"
)

// ignoreFile lists files next to the chart that are not part of it, such as editors'
// backups. Upstream EMCO unpacks a chart and loads the directory, which honours the file, so we do
// too.
const ignoreFile = ".helmignore"

// ignore returns the files that .helmignore keeps. As in Helm, files in templates that
// begin with "." are never kept (macOS packs "._" files next to real ones), and Chart.yaml
// always is.
func ignore(files tarball.Tree) tarball.Tree {
	rules := append(readRules(files[ignoreFile]), ignoreRule{pattern: "templates/.?*"})
	out := tarball.Tree{}
	for name, content := range files {
		if name == "Chart.yaml" || !ignored(rules, name) {
			out[name] = content
		}
	}
	return out
}

// ignoreRule is one line of .helmignore.
type ignoreRule struct {
	pattern string // in the syntax of path.Match
	base    bool   // the pattern has no slash: it matches the last element
	dir     bool   // it matches directories only
	negate  bool   // it cancels earlier rules
}

func readRules(text []byte) []ignoreRule {
	var rules []ignoreRule
	for line := range bytes.Lines(text) {
		p := strings.TrimSpace(string(line))
		if p == "" || strings.HasPrefix(p, "#") {
			continue
		}
		var r ignoreRule
		p, r.negate = strings.CutPrefix(p, "!")
		p, r.dir = strings.CutSuffix(p, "/")
		r.base = !strings.Contains(p, "/")
		r.pattern = strings.TrimPrefix(p, "/")
		if _, err := path.Match(r.pattern, ""); err == nil {
			rules = append(rules, r)
		}
	}
	return rules
}

// ignored reports whether a file, or a directory above it, is ignored. The last rule
// that matches decides.
func ignored(rules []ignoreRule, name string) bool {
	for i, c := range name + "/" {
		if c == '/' && matches(rules, name[:i], i < len(name)) {
			return true
		}
	}
	return false
}

func matches(rules []ignoreRule, name string, dir bool) bool {
	out := false
	for _, r := range rules {
		if r.dir && !dir {
			continue
		}
		subject := name
		if r.base {
			subject = path.Base(name)
		}
		if ok, _ := path.Match(r.pattern, subject); ok {
			out = !r.negate
		}
	}
	return out
}
