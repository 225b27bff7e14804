// Package placementintent owns the intents that say on which clusters apps run. It
// keeps them; the orchestrator reads them and decides.
package placementintent
