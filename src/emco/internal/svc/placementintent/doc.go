// Package placementintent owns the intents that select the clusters of apps. It stores
// them; the orchestrator reads them and decides.
package placementintent
