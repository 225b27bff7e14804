package rendertest_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
)

func TestPlainIsARenderer(t *testing.T) {
	t.Parallel()
	packed, err := rendertest.Pack(map[string]string{
		"app/Chart.yaml":        "name: app\n",
		"app/templates/all.yml": "apiVersion: v1\nkind: Service\nmetadata: {name: b}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	req := request()
	req.Package = rendertest.Archive(packed)
	if err := rendertest.Check(t.Context(), rendertest.Plain{}, req); err != nil {
		t.Error(err)
	}
}
