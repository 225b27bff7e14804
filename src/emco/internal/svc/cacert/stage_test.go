package cacert_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/cacert"
)

// silent is an issuer that has signed nothing.
type silent struct{}

func (silent) Signed(context.Context, store.Doc, string, v2.DeploymentID, string) (map[string]cacert.Signed, error) {
	return map[string]cacert.Signed{}, nil
}

// stageFixture is a server with two clusters and a certificate authority for one of them.
type stageFixture struct {
	*resourcetest.Server
	t           *testing.T
	contexts    *appcontext.Store
	authorities *cacert.Authorities
}

func newStageFixture(t *testing.T) stageFixture {
	t.Helper()
	f := stageFixture{t: t, contexts: contexttest.New(t)}
	f.Server = resourcetest.Serve(t, func(r *mux.Router, db *store.DB) {
		f.authorities = cacert.New(db, f.contexts, silent{})
		cacert.Resources{DB: db, Authorities: f.authorities.Guards()}.Mount(r)
		f.authorities.Mount(r)
	})
	for key, body := range map[store.Key]string{
		"cluster-providers/edge": "{}", "cluster-providers/edge/clusters/c1": `{"metadata":{"name":"c1"}}`, "cluster-providers/edge/clusters/c2": `{"metadata":{"name":"c2"}}`,
	} {
		if _, err := f.DB.Create(t.Context(), store.Write{Key: key, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	f.Run(t,
		step{Do: "POST " + ofProvider, Body: document("edge", "c1", "8760h", "3h"), Status: 201},
		step{Do: "POST " + ofProvider + "/ca/clusters", Body: group("name", "edge", "c2"), Status: 201},
	)
	return f
}

const enrollment = ofProvider + "/ca/enrollment"

// publish carries out the operation of the enrollment that waits, and returns the names of the requests.
func (f stageFixture) publish() (requests []string) {
	f.t.Helper()
	doc, err := f.DB.Get(f.t.Context(), "cluster-providers/edge/ca-cert-enrollments/ca")
	if err != nil {
		f.t.Fatal(err)
	}
	head, err := f.contexts.Head(f.t.Context(), appcontext.HeadID(doc.UID))
	if err != nil || head.Op == nil {
		f.t.Fatalf("no operation waits: %+v %v", head, err)
	}
	owner, found := f.authorities.Publishers().Of(doc.Key)
	if !found {
		f.t.Fatal("the enrollment has no publisher")
	}
	if head, err = owner.Publish(f.t.Context(), f.contexts, head, doc); err != nil {
		f.t.Fatal(err)
	}
	places, err := f.contexts.Placements(f.t.Context(), head.UID, head.Rev)
	if err != nil || len(places) != 1 || places[0].Cluster != "edge+c1" {
		f.t.Fatalf("the requests are on %v %v, want the issuing cluster alone", places, err)
	}
	bundle, err := f.contexts.GetBundle(f.t.Context(), places[0].Apps["enrollment"])
	if err != nil {
		f.t.Fatal(err)
	}
	for _, o := range bundle.Objects {
		content, err := f.contexts.GetBlob(f.t.Context(), o.Digest)
		if err != nil || o.Kind != "CertificateRequest" || bytes.Contains(content, []byte("PRIVATE")) {
			f.t.Errorf("the issuing cluster gets %s: %v", o.ID, err)
		}
		requests = append(requests, o.Name)
	}
	return requests
}

// key returns the document of the key of c2.
func (f stageFixture) key() store.Doc {
	f.t.Helper()
	doc, err := f.DB.Get(f.t.Context(), "cluster-providers/edge/ca-cert-enrollments/ca/keys/edge+c2")
	if err != nil {
		f.t.Fatal(err)
	}
	return doc
}

func TestKeysAreSealedAndMadeAgainInTime(t *testing.T) {
	t.Parallel()
	f := newStageFixture(t)
	now := time.Now()
	f.authorities.SetClock(func() time.Time { return now })
	f.Run(t, step{Do: "POST " + enrollment + "/instantiate", Status: 202, Text: "="})
	first := f.publish()
	doc := f.key()
	plain, err := f.DB.Reveal(t.Context(), doc)
	if err != nil || !strings.HasPrefix(string([]byte(plain)), "-----BEGIN PRIVATE KEY-----") {
		t.Fatalf("the key cannot be read: %v", err)
	}
	if bytes.Contains(doc.Secret, []byte("PRIVATE KEY")) || bytes.Contains(doc.Body, []byte("PRIVATE KEY")) {
		t.Error("the key is stored in plain")
	}

	now = now.Add(119 * time.Minute)
	f.Run(t, step{Do: "POST " + enrollment + "/update", Status: 202})
	if again := f.publish(); len(first) != 1 || len(again) != 1 || again[0] != first[0] {
		t.Errorf("before two thirds of its life the request %v became %v", first, again)
	}
	now = now.Add(2 * time.Minute)
	f.Run(t, step{Do: "POST " + enrollment + "/update", Status: 202})
	if again := f.publish(); len(again) != 1 || again[0] == first[0] {
		t.Errorf("after two thirds of its life the request %v stayed: %v", first, again)
	}
	if next, err := f.DB.Reveal(t.Context(), f.key()); err != nil || bytes.Equal(next, plain) {
		t.Errorf("a new certificate is for the old key (%v)", err)
	}

	// The key of a cluster that left goes.
	f.Run(t,
		step{Do: "PUT " + ofProvider + "/ca/clusters/g", Body: group("name", "edge", "c1"), Status: 200},
		step{Do: "POST " + enrollment + "/update", Status: 202},
	)
	f.publish()
	if _, err := f.DB.Get(t.Context(), "cluster-providers/edge/ca-cert-enrollments/ca/keys/edge+c2"); !errs.Is(err, errs.NotFound) {
		t.Errorf("the key of a cluster that left is still there: %v", err)
	}
}

func TestADocumentGoesWithItsKeys(t *testing.T) {
	t.Parallel()
	f := newStageFixture(t)
	f.Run(t,
		step{Do: "GET " + enrollment + "/status", Status: 200, Text: `"actions":[{"state":"Created"`},
		step{Do: "POST " + enrollment + "/instantiate?dryRun=true", Status: 200, Text: `"state":"Instantiated"`},
		step{Do: "POST " + enrollment + "/terminate", Status: 409, Text: "not allowed in state Created"},
		step{Do: "POST " + ofProvider + "/none/enrollment/instantiate", Status: 404, Text: "=CaCert not found"},
		step{Do: "POST " + ofProvider + "/ca/distribution/instantiate", Status: 409, Text: "the enrollment is not instantiated"},
		step{Do: "POST " + enrollment + "/instantiate", Status: 202},
	)
	f.publish()
	f.Run(t,
		step{Do: "DELETE " + ofProvider + "/ca/clusters/g", Status: 204},
		step{Do: "DELETE " + ofProvider + "/ca", Status: 409, Text: "the enrollment is instantiated; terminate it before the certificate authority is deleted"},
		step{Do: "POST " + enrollment + "/update", Status: 400, Text: "has no clusters"},
		step{Do: "POST " + enrollment + "/terminate", Status: 202},
		step{Do: "DELETE " + ofProvider + "/ca", Status: 204},
	)
	for doc, err := range f.DB.List(t.Context(), "cluster-providers/edge", store.Query{}) {
		if err != nil || strings.Contains(string(doc.Key), "ca-cert") {
			t.Errorf("%s is left (%v)", doc.Key, err)
		}
	}
	if err := f.DB.Delete(t.Context(), "cluster-providers/edge/clusters/c1", nil); err != nil {
		t.Error(err)
	}
}

func TestLongNamesFitCertificatesAndObjects(t *testing.T) {
	t.Parallel()
	f := newStageFixture(t)
	long := strings.Repeat("long", 20)
	if _, err := f.DB.Create(t.Context(), store.Write{Key: store.Key("cluster-providers/edge/clusters/" + long), Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	f.Run(t,
		step{Do: "PUT " + ofProvider + "/ca/clusters/g", Body: group("name", "edge", long), Status: 200},
		step{Do: "POST " + enrollment + "/instantiate", Status: 202},
	)
	if got := f.publish(); len(got) != 1 || !strings.HasPrefix(got[0], "ca-") || len(got[0]) > 63 {
		t.Errorf("the request is called %v", got)
	}
}

// Documents may select clusters many times, and more than allowed.
func TestAnAuthorityHasAtMost1000Clusters(t *testing.T) {
	t.Parallel()
	f := newStageFixture(t)
	for i := range 1000 {
		name := fmt.Sprint("n", i)
		for key, body := range map[string]string{"": `{"metadata":{"name":"` + name + `"}}`, "/labels/all": `{"clusterLabel":"all"}`} {
			if _, err := f.DB.Create(t.Context(), store.Write{Key: store.Key("cluster-providers/edge/clusters/" + name + key), Body: []byte(body)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"one", "two"} {
		f.Run(t, step{Do: "POST " + ofProvider + "/ca/clusters", Body: strings.Replace(group("label", "edge", "all"), `"g"`, `"`+name+`"`, 1), Status: 201})
	}
	f.Run(t,
		step{Do: "POST " + enrollment + "/instantiate", Status: 400, Text: "the certificate authority has more than 1000 clusters"},
		step{Do: "DELETE " + ofProvider + "/ca/clusters/g", Status: 204},
		step{Do: "POST " + enrollment + "/instantiate", Status: 202},
	)
}
