package progress_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/progress"
)

// rolling is a deployment of 100 pairs of which ten more are applied at each look.
func rolling() progress.Source {
	looks := 0
	return func(context.Context) (v2.Status, error) {
		s := v2.Status{DeployedStatus: v2.StatusInstantiating}
		app := v2.AppStatus{Name: "web"}
		for i := range 100 {
			c := v2.ClusterStatus{Provider: "edge", Cluster: fmt.Sprint("c", i), Phase: "Pending"}
			if i < looks*10 {
				c.Phase = "Applied"
			}
			app.Clusters = append(app.Clusters, c)
		}
		if looks++; looks > 10 {
			s.DeployedStatus = v2.StatusInstantiated
		}
		s.Apps = []v2.AppStatus{app}
		return s, nil
	}
}

func TestF58ProgressFitsTheTerminal(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{20, 80, 200} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			err := progress.Wait(t.Context(), rolling(), progress.Options{
				Goal: progress.Deployed, Timeout: time.Minute, Name: "projects/shop/composite-apps/till/v1/deployment-intent-groups/autumn", Log: &log, Columns: columns,
			})
			if err != nil {
				t.Fatal(err)
			}
			text := log.String()
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\r\x1b[K")[1:]
			if strings.Count(text, "\n") != 1 || len(lines) != 11 {
				t.Errorf("%d columns: %d lines:\n%q", columns, len(lines), text)
			}
			for _, line := range lines {
				if n := utf8.RuneCountInString(line); n >= columns {
					t.Errorf("%q has %d of %d columns", line, n, columns)
				}
			}
			if columns == 20 {
				return
			}
			if want := "autumn Instantiating [..............................] 0/100"; lines[0] != want {
				t.Errorf("first line %q, want %q", lines[0], want)
			}
			if half := lines[5]; !strings.HasPrefix(half, "autumn Instantiating [###############...............] 50/100, ") || !strings.HasSuffix(half, "s left") {
				t.Errorf("line %q", half)
			}
			if last := lines[10]; !strings.HasPrefix(last, "autumn Instantiated [##############################] 100/100, ") {
				t.Errorf("last line %q", last)
			}
		})
	}
}
