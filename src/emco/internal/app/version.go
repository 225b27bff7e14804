package app

import (
	"encoding/json"
	"net/http"

	"github.com/emco-orchestrator/emco/src/api/version"
)

// serveVersion answers what the program was built from.
func serveVersion(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(version.Read())
}
