// Package later returns flags for go build that build a later release from these sources, for tests of upgrades: there is
// no second release yet. In the later one a project has an owner, and stored data is at level 3, which the present release
// refuses.
package later

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Version is what the later release calls itself, if it is built with Flags.
const Version = "v99.0.0"

// Level is the level of stored data that the later release knows.
const Level = 3

// edit replaces a text in a file, which must have it once.
type edit struct{ file, old, new string }

// edits give a project an owner. It is stored from level 3 on, and refused before.
var edits = []edit{
	{"emco/internal/appcontext/store.go", "\nconst Level = 2\n", "\nconst Level = 3\n"},
	{
		"api/v2/project.go", "type Project struct {\n\tNamed\n}\n",
		"type Project struct {\n\tNamed\n\tSpec ProjectSpec `json:\"spec,omitzero\"`\n}\n\n// ProjectSpec is what is special about a project.\ntype ProjectSpec struct {\n\tOwner string `json:\"owner,omitempty\"`\n}\n",
	},
	{
		"emco/internal/svc/orchestrator/resources.go", "\t\tScope: v2.ProjectStoreKey,\n",
		"\t\tScope: v2.ProjectStoreKey,\n\t\tCheck: func(_ context.Context, _ resource.Place, p v2.Project) error {\n\t\t\tif n := s.Level(); p.Spec.Owner != \"\" && n < 3 {\n" +
			"\t\t\t\treturn errs.New(errs.Conflict, fmt.Sprintf(\"spec.owner needs stores at level 3, they are at %d: replace all processes by this version first\", n))\n\t\t\t}\n\t\t\treturn nil\n\t\t},\n",
	},
}

// Flags returns the flags of go build that make the later release of the sources in a folder. They name files in dir.
func Flags(sources, dir string) ([]string, error) {
	sources, err := filepath.Abs(sources)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, e := range edits {
		if _, read := texts[e.file]; !read {
			text, err := os.ReadFile(filepath.Join(sources, e.file))
			if err != nil {
				return nil, err
			}
			texts[e.file] = string(text)
		}
		if n := strings.Count(texts[e.file], e.old); n != 1 {
			return nil, fmt.Errorf("%s has %d times %q, which the later release replaces: it must have it once", e.file, n, e.old)
		}
		texts[e.file] = strings.Replace(texts[e.file], e.old, e.new, 1)
	}
	replace := map[string]string{}
	for file, text := range texts {
		changed := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return nil, err
		}
		replace[filepath.Join(sources, file)] = changed
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return nil, err
	}
	return []string{"-overlay", file, "-ldflags", "-X github.com/emco-orchestrator/emco/src/api/version.release=" + Version}, nil
}
