package orchestrator

import (
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

func TestWhatAPromotionPasses(t *testing.T) {
	t.Parallel()
	app := func(name string, pauses ...bool) appcontext.App {
		r := appcontext.Rollout{}
		for _, pause := range pauses {
			r.Waves = append(r.Waves, appcontext.Wave{Clusters: 1, Pause: pause})
		}
		return appcontext.App{Name: name, Rollout: &r}
	}
	pausing := []appcontext.App{app("db", true, false), app("web", false, false, true), {Name: "plain"}}
	tests := []struct {
		name  string
		apps  []appcontext.App
		kind  string
		now   appcontext.Promotion
		asked v2.PromoteSpec
		want  appcontext.Promotion
		err   string
	}{
		{"the only pause", []appcontext.App{app("web", false, true)}, "update", appcontext.Promotion{}, v2.PromoteSpec{Revision: 7}, appcontext.Promotion{Rev: 7, Wave: 2}, ""},
		{"which is over", []appcontext.App{app("web", false, true)}, "update", appcontext.Promotion{Rev: 7, Wave: 2}, v2.PromoteSpec{}, appcontext.Promotion{}, "was promoted after wave 2 already, its last pause"},
		{"one of several, without its wave", pausing, "update", appcontext.Promotion{}, v2.PromoteSpec{}, appcontext.Promotion{}, "pauses after wave 1 and 3; name the wave"},
		{"the next of several, without its wave", pausing, "update", appcontext.Promotion{Rev: 7, Wave: 1}, v2.PromoteSpec{}, appcontext.Promotion{}, "pauses after wave 1 and 3, and was promoted after wave 1; name the wave"},
		{"none is left", pausing, "update", appcontext.Promotion{Rev: 7, Wave: 3}, v2.PromoteSpec{}, appcontext.Promotion{}, "was promoted after wave 3 already, its last pause"},
		{"one after the other", pausing, "update", appcontext.Promotion{Rev: 7, Wave: 1}, v2.PromoteSpec{Revision: 7, Wave: 3}, appcontext.Promotion{Rev: 7, Wave: 3}, ""},
		{"several at once", pausing, "update", appcontext.Promotion{}, v2.PromoteSpec{Wave: 3}, appcontext.Promotion{Rev: 7, Wave: 3}, ""},
		{"twice", pausing, "update", appcontext.Promotion{Rev: 7, Wave: 3}, v2.PromoteSpec{Wave: 1}, appcontext.Promotion{}, "was promoted after wave 1 already"},
		{"no pause there", pausing, "update", appcontext.Promotion{}, v2.PromoteSpec{Wave: 2}, appcontext.Promotion{}, "does not pause after wave 2, but after 1 and 3"},
		{"another revision", pausing, "update", appcontext.Promotion{}, v2.PromoteSpec{Revision: 6, Full: true}, appcontext.Promotion{}, "revision 7 is desired, not 6"},
		{"in full, after a part", pausing, "update", appcontext.Promotion{Rev: 7, Wave: 1}, v2.PromoteSpec{Full: true}, appcontext.Promotion{Rev: 7, Wave: 1, Full: true}, ""},
		{"in full twice", pausing, "update", appcontext.Promotion{Rev: 7, Full: true}, v2.PromoteSpec{Full: true}, appcontext.Promotion{}, "promoted in full"},
		{"waves without pauses", []appcontext.App{app("web", false)}, "update", appcontext.Promotion{}, v2.PromoteSpec{}, appcontext.Promotion{}, "does not pause"},
		{"a rollback does not pause", pausing, "rollback", appcontext.Promotion{}, v2.PromoteSpec{Wave: 1}, appcontext.Promotion{}, "does not pause"},
		{"but it may be promoted in full", pausing, "rollback", appcontext.Promotion{}, v2.PromoteSpec{Full: true}, appcontext.Promotion{Rev: 7, Full: true}, ""},
		{"no waves", []appcontext.App{{Name: "plain"}}, "update", appcontext.Promotion{}, v2.PromoteSpec{Full: true}, appcontext.Promotion{}, "no app that changes in waves"},
	}
	for _, tt := range tests {
		got, err := promoted(appcontext.Revision{Number: 7, Kind: tt.kind, Apps: tt.apps}, tt.now, tt.asked)
		if tt.err == "" && (err != nil || got != tt.want) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %+v, %v; want %+v, %q", tt.name, got, err, tt.want, tt.err)
		}
	}
}
