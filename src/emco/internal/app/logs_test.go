package app_test

import (
	"strings"
	"testing"
)

// Lines about a deployment have its name and its id, and a first start logs no error.
func TestF54TheLogNamesDeployments(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.running("a")
	id := g.becomes("Instantiated").States.StatusCtxID
	_, after, _ := strings.Cut(g.path, "projects/")
	parts := strings.Split(after, "/")
	want := `"deployment":"` + id + `","deploymentName":"` + strings.Join([]string{parts[0], parts[2], parts[3], parts[5]}, "/") + `"`
	s.eventually("named", func() string {
		if strings.Contains(s.log.String(), want) {
			return ""
		}
		return "the log lacks " + want
	})
	if strings.Contains(s.log.String(), `"level":"ERROR"`) {
		s.Error("a first start logs an error")
	}
}
