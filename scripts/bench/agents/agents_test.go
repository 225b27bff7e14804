package agents

import (
	"reflect"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/status"
)

// A filled form has the same content as an encoded report.
func TestFormsAreWholeReports(t *testing.T) {
	t.Parallel()
	o := status.Object{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: "web", Status: status.Current, Content: "90ab"}
	app := status.App{Label: "42-web", Objects: []status.Object{o, o}}
	a := Agent{Cluster: "edge+c1", Apps: []status.App{app, {Label: "43-db", Objects: app.Objects}}}
	for range 12 {
		text, err := a.Text()
		if err != nil {
			t.Fatal(err)
		}
		got, err := status.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		want := a.report(true)
		want.Schema = status.Schema
		if age := want.At.Sub(got.At); age < 0 || age > 2e9 {
			t.Errorf("the report is of %s, want %s", got.At, want.At)
		}
		if got.At = want.At; !reflect.DeepEqual(got, want) {
			t.Errorf("report %d is %+v, want %+v", a.turn, got, want)
		}
	}
	if !a.form.ready() {
		t.Error("each report is encoded completely")
	}
}
