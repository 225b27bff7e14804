package anchor

import "strings"

// Expand returns the path of a deployment intent group that is named in short, as
// PROJECT/COMPOSITEAPP/VERSION/GROUP. Other names are returned as they are, without the
// slashes at their ends; those of four segments that begin with projects/P/logical-clouds
// are logical clouds.
func Expand(name string) string {
	name = strings.Trim(name, "/")
	s := strings.Split(name, "/")
	if len(s) != 4 || s[0] == "projects" && s[2] == "logical-clouds" {
		return name
	}
	return "projects/" + s[0] + "/composite-apps/" + s[1] + "/" + s[2] + "/deployment-intent-groups/" + s[3]
}
