package app

import (
	"encoding/json"
	"net/http"
	"runtime"
	"runtime/debug"
)

// Version describes the program: the version of the module, the commit it was built
// from and the Go release.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
}

// ReadVersion returns the version that the Go toolchain recorded in the program.
func ReadVersion() Version {
	v := Version{Version: "(devel)", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}

func version(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(ReadVersion())
}
