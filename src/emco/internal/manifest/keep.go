package manifest

import "strings"

// keepKey is Helm's annotation of objects that shall outlive their release.
const keepKey = "helm.sh/resource-policy"

// Kept reports whether annotations ask for the object to be left where it is when its
// app goes, or does not want it any more.
func Kept(annotations map[string]string) bool {
	return strings.EqualFold(strings.TrimSpace(annotations[keepKey]), "keep")
}
