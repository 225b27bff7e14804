package trailers_test

import (
	"slices"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/trailers"
	"github.com/emco-orchestrator/emco/src/git"
)

func TestOfReadsWhatACommitCarried(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, message string
		want          []trailers.Carried
	}{
		{"revisions", "Update 2 deployments\n\nEmco-Clusters: edge+a, edge+b\nEmco-Deployment: 12, 7\nEmco-Revision: 12.3, 7.1, 7.2\n", []trailers.Carried{{"12", 3}, {"7", 1}, {"7", 2}}},
		{"a deployment without a revision", "Remove till\n\nEmco-Deployment: 12, 7\nEmco-Revision: 7.1\n", []trailers.Carried{{"7", 1}, {"12", 0}}},
		{"more deployments than a commit names", "x\n\nEmco-Deployment: 12, 7, … (968 more)\nEmco-Revision: 7.1, … (970 more)\n", []trailers.Carried{{"7", 1}, {"12", 0}}},
		{"a long list of something else", "x\n\nEmco-Deployment: 7, … (many more)\n", []trailers.Carried{{"7", 0}}},
		{"no trailers", "fix it by hand\n", nil},
		{"what rsync does not write", "x\n\nEmco-Revision: 7, .., 7.x, 9.4\n", []trailers.Carried{{"9", 4}}},
	} {
		if got := trailers.Of(git.Commit{Message: tt.message}); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	for _, c := range []trailers.Carried{{"7", 12}} {
		m := git.Message{Title: "t", Trailers: []git.Trailer{{Key: trailers.Revisions, Value: trailers.Join([]string{c.Text()})}}}
		if got := trailers.Of(git.Commit{Message: m.Text()}); !slices.Equal(got, []trailers.Carried{c}) {
			t.Errorf("%+v comes back as %+v", c, got)
		}
	}
}

func TestCountCountsWhatACommitLeavesOut(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int{
		"": 0, "edge+a": 1, "edge+a, edge+b": 2, "edge+a, edge+b, … (968 more)": 970, "edge+a, … (99999999999 more)": 1, "edge+a, … (-1 more)": 1,
	} {
		c := git.Commit{Message: "x\n\nEmco-Clusters: " + value + "\n"}
		if got := trailers.Count(c, trailers.Clusters); got != want {
			t.Errorf("%q: %d, want %d", value, got, want)
		}
	}
}
