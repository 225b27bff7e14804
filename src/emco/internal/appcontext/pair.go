package appcontext

import "github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"

// Pairs, the reports on them, and their parts, see package pairstore.
type (
	Pair           = pairstore.Pair
	PairKey        = pairstore.Key
	PairState      = pairstore.State
	PairStore      = pairstore.Store
	Phase          = pairstore.Phase
	Change         = pairstore.Change
	ExternalEdit   = pairstore.ExternalEdit
	Outcome        = pairstore.Outcome
	Refusal        = pairstore.Refusal
	Report         = pairstore.Report
	Proof          = pairstore.Proof
	ReportStore    = pairstore.ReportStore
	ResourceStatus = pairstore.ResourceStatus
)

// The phases of a pair.
const (
	Pending  = pairstore.Pending
	Applied  = pairstore.Applied
	Retrying = pairstore.Retrying
	Failed   = pairstore.Failed
	Deleting = pairstore.Deleting
)

// The changes of a pair.
const (
	Install  = pairstore.Install
	Upgrade  = pairstore.Upgrade
	RollBack = pairstore.RollBack
	Remove   = pairstore.Remove
)
