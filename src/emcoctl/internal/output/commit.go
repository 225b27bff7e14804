package output

import "strings"

// commitLength is how many digits of a commit or digest a table shows, as Git does for large repositories.
const commitLength = 12

// Commit shortens a Git commit, or the digest of a published artifact ("sha256:…"), for a table.
func Commit(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	return id[:min(len(id), commitLength)]
}
