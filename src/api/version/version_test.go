package version

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	const hash = "0123456789abcdef0123456789abcdef01234567"
	platform := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH
	checkout := []debug.BuildSetting{{Key: "vcs.revision", Value: hash}, {Key: "vcs.modified", Value: "true"}}
	for name, c := range map[string]struct {
		release, commit string
		build           debug.BuildInfo
		want            string
	}{
		"a release names its version and commit":      {"v1.2.3", hash, debug.BuildInfo{}, "v1.2.3, commit " + hash},
		"a release ignores the checkout":              {"v1.2.3", hash, debug.BuildInfo{Settings: checkout}, "v1.2.3, commit " + hash},
		"go install module@version":                   {"", "", debug.BuildInfo{Main: debug.Module{Version: "v1.2.4"}}, "v1.2.4"},
		"a checkout is named by its commit":           {"", "", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: checkout}, "devel-0123456789ab, commit " + hash + " with changes"},
		"a build without a record of the source":      {"", "", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "devel"},
		"a build without modules has no version":      {"", "", debug.BuildInfo{}, "devel"},
		"a commit that the release build cut short":   {"", "abc", debug.BuildInfo{}, "devel-abc, commit abc"},
		"a release without a commit still has a name": {"v1.2.3", "", debug.BuildInfo{}, "v1.2.3"},
	} {
		if got := describe(c.release, c.commit, c.build).String(); got != c.want+", "+platform {
			t.Errorf("%s: %q, want %q", name, got, c.want+", "+platform)
		}
	}
}

func TestRequested(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{
		"version": true, "-version": true, "--version": true,
		"": false, "config print": false, "version -o json": false, "-data version": false,
	} {
		if got := Requested(strings.Fields(args)); got != want {
			t.Errorf("%q: %v, want %v", args, got, want)
		}
	}
}

func TestPrint(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := Print(&out, "emco"); err != nil || out.String() != "emco "+Read().String()+"\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
