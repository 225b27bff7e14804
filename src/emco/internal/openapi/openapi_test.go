package openapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/openapi"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// A resource describes itself: nothing has to be written for its routes.
func TestAResourceIsDescribedByItsDeclaration(t *testing.T) {
	t.Parallel()
	r := web.NewRouter()
	resource.Mount(r, &store.DB{}, resource.Def[v2.SyncObject]{
		Kind: "Thing", Orphan: "no parent", Collection: "boxes/{box}/things", Item: "{thing}", Put: resource.PutUpsert,
		File: &resource.File[v2.SyncObject]{Limit: 1}, Forbids: "it is too much",
	})
	d, err := openapi.Of(r, "v1")
	if err != nil {
		t.Fatal(err)
	}
	put := d.Paths["/v2/boxes/{box}/things/{thing}"]["put"]
	if put == nil || put.ID != "putBoxesBoxThingsThing" || put.Tags[0] != "things" || len(put.Parameters) != 4 {
		t.Fatalf("the PUT: %+v", put)
	}
	for _, status := range []string{"200", "201", "400", "403", "409", "412", "413", "422"} {
		if put.Responses[status].Description == "" {
			t.Errorf("the PUT has no answer %s", status)
		}
	}
	if put.RequestBody.Content["multipart/form-data"].Schema == nil || put.RequestBody.Content["application/json"].Schema != nil {
		t.Errorf("a document with a file is sent as %+v", put.RequestBody.Content)
	}
	spec, err := json.Marshal(d.Components.Schemas["SyncObject"].Properties["spec"])
	if want := `{"type":"object","properties":{"kv":{"type":"array","items":{"type":"object","additionalProperties":{"type":"string"}}}}}`; err != nil || string(spec) != want {
		t.Errorf("the schema is %s, %v; want %s", spec, err, want)
	}
}

func TestARouteThatNothingDescribesIsAnError(t *testing.T) {
	t.Parallel()
	r := mux.NewRouter()
	web.Handle(r, "GET", "/v2/secret", authz.Permission{Verb: authz.Public, Type: "tests"}, nil)
	if _, err := openapi.Of(r, "v1"); err == nil || !strings.Contains(err.Error(), "nothing describes GET /v2/secret") {
		t.Errorf("got %v", err)
	}
}
