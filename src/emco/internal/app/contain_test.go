package app_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint/wrap"
)

// A panic at a step of the work on one deployment fails that work with a reason, and is counted. The
// process lives, other deployments go on, and the failed one arrives when it is asked for again.
func TestF74APanicFailsItsItemAlone(t *testing.T) {
	t.Parallel()
	points := failpoint.New(wrap.Points()...)
	s := newStage(t)
	s.stop()
	s.options = append(cheap(), app.WithFailpoints(points))
	s.start()
	s.fleet("a", "b")
	s.onboard("web")
	other := s.group("other", appPlaces{"web": nil})
	other.act("instantiate")
	other.becomes("Instantiated")
	for i, c := range []struct{ point, part string }{
		{"render.before", "orchestrator"},
		{"etcd.publish.before", "orchestrator"},
		{"git.commit.before", "git"},
	} {
		before := s.metric(`emco_panics_total{part="` + c.part + `"}`)
		g := s.group("g"+string(rune('a'+i)), appPlaces{"web": nil})
		s.must("arm", points.Arm(c.point+"=panic(once)"))
		g.act("instantiate")
		s.eventually("a panic at "+c.point+" is counted", func() string {
			if s.metric(`emco_panics_total{part="`+c.part+`"}`) != before {
				return ""
			}
			return "not yet"
		})
		s.must("disarm", points.Arm(""))
		s.eventually("after a panic at "+c.point+", the deployment", func() string {
			st := g.status()
			if st.DeployedStatus == "Instantiated" {
				return ""
			}
			if st.DeployedStatus == "InstantiateFailed" {
				s.do("POST", g.path+"/instantiate", "")
			}
			return st.DeployedStatus
		})
		other.act("update")
		other.becomes("Instantiated")
	}
	if log := s.log.String(); !strings.Contains(log, "recovered from a panic") || !strings.Contains(log, "broken on purpose by a failpoint at etcd.publish.before") {
		t.Error("the log does not name the faults")
	}
}
