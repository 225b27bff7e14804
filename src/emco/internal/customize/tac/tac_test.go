package tac_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/tac"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

func TestANamedHookMustExist(t *testing.T) {
	t.Parallel()
	db := resourcetest.DB(t)
	const group = "projects/p/composite-apps/ca/v1/deployment-intent-groups/g"
	if _, err := db.Create(t.Context(), store.Write{Key: group + "/temporal-action-controller/backup"}); err != nil {
		t.Fatal(err)
	}
	for intent, want := range map[string]string{"backup": "", "restore": "HookIntent not found: restore; add it below " + group + "/temporal-action-controller"} {
		edits, err := tac.New(db).Customize(t.Context(), customize.Deployment{Group: group, Intent: intent})
		if len(edits.Edits) > 0 || want == "" && err != nil || want != "" && (!errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v; want %q", intent, edits, err, want)
		}
	}
}
