package resource

import "context"

// maxTrials bounds the dry runs of uploads at the same time: their files are in memory.
const maxTrials = 4

type dryRunKey struct{}

// DryRun reports whether a check runs for a dry run: it must leave nothing behind, not even
// in memory.
func DryRun(ctx context.Context) bool {
	dry, _ := ctx.Value(dryRunKey{}).(bool)
	return dry
}
