package app

import (
	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/emco/internal/status/gitstatus"
)

// MountReports adds the routes of reports, whose handlers then have nothing to read from.
func MountReports(r *mux.Router) {
	reportIntake{git: &gitstatus.Source{}}.mount(r, "")
}
