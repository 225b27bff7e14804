// Package version reports what a program was built from: its version, the commit and the Go release.
package version

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
)

// The release build sets release and commit, because it builds from exported sources:
//
//	go build -ldflags "-X github.com/emco-orchestrator/emco/src/api/version.release=v1.2.3"
//
// Other builds leave them empty, and the Go toolchain's record of the build counts.
var release, commit string

// Info describes one program.
type Info struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the sources differed from the commit
	Go       string `json:"go,omitempty"`
	Platform string `json:"platform,omitempty"`
}

// shortCommit is the length of a commit in a version.
const shortCommit = 12

// Read returns the description of the running program.
func Read() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return describe(release, commit, *build)
}

// describe joins what the release build set with what the toolchain recorded. A build from a
// checkout without a version is called devel, with its commit.
func describe(release, commit string, build debug.BuildInfo) Info {
	v := Info{Version: release, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if commit == "" {
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	if v.Version == "" && build.Main.Version != "(devel)" {
		v.Version = build.Main.Version
	}
	if v.Version == "" {
		v.Version = "devel"
		if v.Commit != "" {
			v.Version += "-" + v.Commit[:min(len(v.Commit), shortCommit)]
		}
	}
	return v
}

// String returns one line: the version, the commit, the Go release and the platform.
func (v Info) String() string {
	from := ""
	if v.Commit != "" {
		from = ", commit " + v.Commit
	}
	if v.Modified {
		from += " with changes"
	}
	return fmt.Sprintf("%s%s, %s, %s", v.Version, from, v.Go, v.Platform)
}

// Requested reports whether a command line asks for nothing but the version.
func Requested(args []string) bool {
	return len(args) == 1 && slices.Contains([]string{"version", "-version", "--version"}, args[0])
}

// Print writes the line of a program.
func Print(w io.Writer, program string) error {
	_, err := fmt.Fprintf(w, "%s %s\n", program, Read())
	return err
}
