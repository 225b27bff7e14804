package anchor

import (
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Expand returns the path of a deployment intent group from its short form,
// PROJECT/COMPOSITEAPP/VERSION/GROUP. It returns other names, such as those of logical
// clouds (projects/P/logical-clouds/L) and clusters (cluster-providers/P/clusters/C), without the slashes at their ends.
func Expand(name string) string {
	name = strings.Trim(name, "/")
	s := strings.Split(name, "/")
	if len(s) != 4 || s[0] == "projects" && s[2] == "logical-clouds" || s[0] == "cluster-providers" && s[2] == "clusters" {
		return name
	}
	app := v2.CompositeAppKey{Project: s[0], Name: s[1], Version: s[2]}
	return v2.GroupKey{CompositeApp: app, Name: s[3]}.StoreKey()
}

// Short returns the short form of the path of a deployment intent group; other paths stay.
func Short(path string) string {
	if k, ok := v2.GroupOf(path); ok {
		return k.String()
	}
	return path
}
