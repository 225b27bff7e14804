package anchor

import "strings"

// Expand returns the path of a deployment intent group from its short form,
// PROJECT/COMPOSITEAPP/VERSION/GROUP. It returns other names, such as those of logical
// clouds (projects/P/logical-clouds/L) and clusters (cluster-providers/P/clusters/C), without the slashes at their ends.
func Expand(name string) string {
	name = strings.Trim(name, "/")
	s := strings.Split(name, "/")
	if len(s) != 4 || s[0] == "projects" && s[2] == "logical-clouds" || s[0] == "cluster-providers" && s[2] == "clusters" {
		return name
	}
	return "projects/" + s[0] + "/composite-apps/" + s[1] + "/" + s[2] + "/deployment-intent-groups/" + s[3]
}

// Short returns the short form of the path of a deployment intent group; other paths stay.
func Short(path string) string {
	s := strings.Split(path, "/")
	if len(s) == 7 && s[0] == "projects" && s[2] == compositeApps && s[5] == "deployment-intent-groups" {
		return strings.Join([]string{s[1], s[3], s[4], s[6]}, "/")
	}
	return path
}
