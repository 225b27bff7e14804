package v2_test

import (
	"fmt"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

func TestAWaveNamesItsClustersInOneWay(t *testing.T) {
	t.Parallel()
	for wave, want := range map[string]string{
		`{"clusters":1}`: "",
		`{"percent":100,"bakeSeconds":0,"pause":true}`: "",
		`{"clusterLabel":"canary"}`:                    "",
		`{}`:                                           "spec.rollout.waves[0]: needs one of clusters",
		`{"pause":true}`:                               "spec.rollout.waves[0]: needs one of clusters",
		`{"clusters":1,"clusterLabel":"canary"}`:       "spec.rollout.waves[0]: needs one of clusters",
		`{"clusters":1,"percent":5}`:                   "spec.rollout.waves[0]: needs one of clusters",
		`{"clusters":-1}`:                              "spec.rollout.waves[0]: needs one of clusters",
		`{"percent":101}`:                              "spec.rollout.waves[0]: needs one of clusters",
		`{"clusterLabel":"a b"}`:                       "spec.rollout.waves[0].clusterLabel",
		`{"clusters":1,"bakeSeconds":-1}`:              "spec.rollout.waves[0].bakeSeconds",
		`{"clusters":1,"bakeSeconds":604801}`:          "spec.rollout.waves[0].bakeSeconds",
	} {
		a, err := v2.Decode[v2.App]([]byte(fmt.Sprintf(`{"metadata":{"name":"web"},"spec":{"rollout":{"waves":[%s]}}}`, wave)), v2.Strict)
		if err == nil {
			err = a.Validate()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", wave, err, want)
		}
	}
}

func TestAPromotionIsOfAWaveOrFull(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		`{}`:                      "",
		`{"revision":3,"wave":1}`: "",
		`{"full":true}`:           "",
		`{"full":true,"wave":1}`:  "spec.full: excludes wave",
		`{"revision":-1}`:         "spec.revision",
		`{"wave":-1}`:             "spec.wave",
		`{"wave":21}`:             "spec.wave",
	} {
		p, err := v2.Decode[v2.Promote]([]byte(`{"spec":`+spec+`}`), v2.Strict)
		if err == nil {
			err = p.Validate()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}
