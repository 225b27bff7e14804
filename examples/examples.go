// Package examples holds the documents, charts and profiles that "simfleet demo" deploys.
package examples

import "embed"

// Demo is the example 01-git-fleet with its charts and profiles, and pack.sh, which packs them.
//
//go:embed 01-git-fleet all:charts/web all:charts/cache profiles/web profiles/cache pack.sh
var Demo embed.FS
