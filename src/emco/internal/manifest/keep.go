package manifest

import "strings"

// keepKey is Helm's annotation of objects that must outlive their release.
const keepKey = "helm.sh/resource-policy"

// Kept reports whether annotations ask to leave the object on the cluster when its app is
// deleted or no longer has it.
func Kept(annotations map[string]string) bool {
	return strings.EqualFold(strings.TrimSpace(annotations[keepKey]), "keep")
}
