package cacert

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/addon"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/inventory"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusview"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// addonStage is one of the two addons of a certificate authority. Its state belongs to a document of its own, which the first
// action makes and which no route shows.
type addonStage struct {
	name       string // in URLs; also the name of the addon's app
	collection string // of its documents, next to that of the certificate authorities
}

var (
	enrollment   = addonStage{"enrollment", "ca-cert-enrollments"}
	distribution = addonStage{"distribution", "ca-cert-distributions"}
	stages       = []addonStage{enrollment, distribution}
)

// key returns the key of the stage's document of a certificate authority.
func (s addonStage) key(ca store.Key) store.Key {
	root, name := split(ca)
	return root + "/" + store.Key(s.collection) + "/" + name
}

// owner returns the key of the certificate authority that a stage's document belongs to.
func owner(stage store.Key) store.Key {
	root, name := split(stage)
	return root + authorities + "/" + name
}

// split returns the place that a document is in, and its name.
func split(key store.Key) (root, name store.Key) {
	i := strings.LastIndexByte(string(key), '/')
	return key[:strings.LastIndexByte(string(key[:i]), '/')], key[i+1:]
}

// Authorities serves the stages of certificate authorities, and makes their revisions.
type Authorities struct {
	db       *store.DB
	contexts *appcontext.Store
	issuers  Issuers
	fleet    *inventory.Inventory
	addons   addon.Deployments
	now      func() time.Time
}

// New returns the stages over the two stores.
func New(db *store.DB, contexts *appcontext.Store, issuers Issuers) *Authorities {
	a := &Authorities{
		db: db, contexts: contexts, issuers: issuers, fleet: inventory.New(db, nil), now: time.Now,
		addons: addon.New(db, contexts, lifecycle.CloudTable(), "the stage"),
	}
	return a.WithStatus(statusview.New(contexts, mirror.New(contexts, slog.New(slog.DiscardHandler)), statusview.Default()))
}

// WithStatus makes r read the status; r follows changes. Without it each query reads etcd.
func (a *Authorities) WithStatus(r *statusview.Reader) *Authorities {
	a.addons.Reader = r
	return a
}

// Mount adds the routes.
func (a *Authorities) Mount(r *mux.Router) {
	for _, root := range []string{inProvider, inProject} {
		for _, s := range stages {
			path := "/v2/" + root + authorities + item + "/" + s.name + "/"
			for _, action := range []lifecycle.Action{lifecycle.Instantiate, lifecycle.Update, lifecycle.Terminate} {
				find := func(r *http.Request) (store.Doc, error) { return a.find(r, s) }
				decide := func(ctx context.Context, now lifecycle.Snapshot, ask lifecycle.Request) ([]appcontext.HeadChange, error) {
					return a.decide(ctx, s, now, ask)
				}
				need := authz.Permission{Verb: authz.Act(action.String()), Type: typ}
				web.Handle(r, http.MethodPost, path+action.String(), need, web.WithDryRun(a.addons.Action(action, http.StatusAccepted, find, decide)))
			}
			web.Handle(r, http.MethodGet, path+"status", authz.Permission{Verb: authz.Get, Type: typ}, func(w http.ResponseWriter, r *http.Request) error {
				return a.status(w, r, s)
			})
		}
	}
}

// Guards keep a certificate authority while one of its stages is instantiated.
func (a *Authorities) Guards() resource.Guards {
	return resource.Guards{Delete: a.deletable, Deleted: a.deleted}
}

func (a *Authorities) deletable(ctx context.Context, doc store.Doc) error {
	for _, s := range slices.Backward(stages) {
		of, err := a.stageOf(ctx, s, doc)
		if err != nil {
			return err
		}
		if _, err := a.addonsOf(s).Idle(ctx, of, "terminate it before the certificate authority is deleted"); err != nil {
			return err
		}
	}
	return nil
}

// deleted removes the stages of a certificate authority that is being deleted, with the keys.
func (a *Authorities) deleted(ctx context.Context, doc store.Doc) error {
	for _, s := range slices.Backward(stages) {
		of, err := a.db.Get(ctx, s.key(doc.Key))
		if errs.Is(err, errs.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if err := a.addonsOf(s).Forget(ctx, of); err != nil {
			return err
		}
		if err := (keyring{db: a.db, enrollment: of.Key}).keepOnly(ctx, nil); err != nil {
			return err
		}
		if err := a.db.Delete(ctx, of.Key, nil); err != nil && !errs.Is(err, errs.NotFound) {
			return err
		}
	}
	return nil
}

// addonsOf returns the addons of a stage.
func (a *Authorities) addonsOf(s addonStage) addon.Deployments {
	d := a.addons
	d.Noun = "the " + s.name
	return d
}

// authorityAt reads a certificate authority.
func (a *Authorities) authorityAt(ctx context.Context, key store.Key) (authority, store.Doc, error) {
	doc, err := a.db.Get(ctx, key)
	if err != nil {
		return authority{}, doc, store.NotFoundAs(err, "CaCert not found")
	}
	ca, err := store.Decode[v2.CACert](doc)
	return authority{doc.Key, ca}, doc, err
}

// noDocument is the id of a stage without a document: no deployment has it.
const noDocument = "0"

// stageOf returns the document of a stage of a certificate authority; one with the id noDocument if it was not made yet.
func (a *Authorities) stageOf(ctx context.Context, s addonStage, ca store.Doc) (store.Doc, error) {
	doc, err := a.db.Get(ctx, s.key(ca.Key))
	if errs.Is(err, errs.NotFound) {
		return store.Doc{Key: s.key(ca.Key), UID: noDocument, Created: ca.Created, Body: []byte("{}")}, nil
	}
	return doc, err
}

// find returns the stage's document of the certificate authority that the URL names. It makes a missing one, except for a
// dry run.
func (a *Authorities) find(r *http.Request, s addonStage) (store.Doc, error) {
	ca, err := a.requested(r)
	if err != nil {
		return store.Doc{}, err
	}
	doc, err := a.stageOf(r.Context(), s, ca)
	if err != nil || doc.UID != noDocument {
		return doc, err
	}
	if dry, err := web.AsksDryRun(r); err != nil || dry {
		return doc, err
	}
	root, _ := split(ca.Key)
	doc, err = a.db.Create(r.Context(), store.Write{Key: s.key(ca.Key), Parent: root, Body: []byte("{}")})
	if errs.Is(err, errs.Exists) {
		return a.db.Get(r.Context(), s.key(ca.Key))
	}
	if err != nil {
		return doc, err
	}
	// A deletion of the certificate authority that ran at the same time did not see the new document.
	if now, err := a.requested(r); err == nil && now.UID == ca.UID && now.State == store.Live {
		return doc, nil
	}
	if err := a.db.Delete(r.Context(), doc.Key, nil); err != nil && !errs.Is(err, errs.NotFound) {
		return doc, err
	}
	return doc, errs.New(errs.NotFound, "CaCert not found")
}

// requested returns the document of the certificate authority that the URL names.
func (a *Authorities) requested(r *http.Request) (store.Doc, error) {
	v, err := web.Vars(r)
	if err != nil {
		return store.Doc{}, err
	}
	root := v2.ProjectStoreKey(v["project"])
	if provider := v["clusterProvider"]; provider != "" {
		root = v2.ProviderStoreKey(provider)
	}
	_, doc, err := a.authorityAt(r.Context(), store.Key(root+authorities+"/"+v["caCert"]))
	return doc, err
}

// decide returns the changes of a request.
func (a *Authorities) decide(ctx context.Context, s addonStage, now lifecycle.Snapshot, ask lifecycle.Request) ([]appcontext.HeadChange, error) {
	m, err := a.addonsOf(s).Change(now, ask)
	if err != nil {
		return nil, err
	}
	ca, doc, err := a.authorityAt(ctx, owner(now.Doc.Key))
	if err != nil {
		return nil, err
	}
	changes := []appcontext.HeadChange{m}
	if ask.Action == lifecycle.Terminate {
		if s == enrollment {
			err = a.checkUndistributed(ctx, doc)
		}
		return changes, err
	}
	if s == distribution {
		if err := a.checkEnrolled(ctx, doc); err != nil {
			return nil, err
		}
	}
	_, err = a.checkPlaces(ctx, s, ca)
	return changes, err
}

// checkPlaces requires clusters, and what they need for the stage.
func (a *Authorities) checkPlaces(ctx context.Context, s addonStage, ca authority) ([]certificatePlace, error) {
	if _, err := directCluster(ctx, a.db, ca.Spec.IssuingCluster.Key()); err != nil {
		return nil, err
	}
	places, err := placesOf(ctx, a.db, a.fleet, ca)
	if err != nil || s == enrollment {
		return places, err
	}
	checked := map[string]bool{}
	for _, p := range places {
		if p.cloud == "" || checked[p.cloud] {
			continue
		}
		checked[p.cloud] = true
		if err := a.checkCloud(ctx, store.Key(v2.LogicalCloudKey{Project: ca.key.Project(), Name: p.cloud}.StoreKey())); err != nil {
			return nil, err
		}
	}
	return places, nil
}

// checkCloud requires an instantiated logical cloud: its namespace must be there.
func (a *Authorities) checkCloud(ctx context.Context, key store.Key) error {
	doc, err := a.db.Get(ctx, key)
	if err != nil {
		return err
	}
	head, _, err := lifecycle.Head(ctx, a.contexts, doc)
	if err == nil && head.State != appcontext.Instantiated {
		err = errs.New(errs.Conflict, "the logical cloud "+string(key)+" is not instantiated; instantiate it first")
	}
	return err
}

// checkEnrolled requires that an issuer has signed all certificates.
func (a *Authorities) checkEnrolled(ctx context.Context, ca store.Doc) error {
	of, err := a.stageOf(ctx, enrollment, ca)
	if err != nil {
		return err
	}
	now, err := a.addons.Reader.Group(ctx, statusview.Subject{Doc: of}, statusview.Query{Ready: true, Output: statusview.Summary})
	if err != nil {
		return err
	}
	s := now.Status()
	switch {
	case s.DeployedStatus != v2.StatusInstantiated:
		return errs.New(errs.Conflict, "the enrollment is not instantiated; instantiate it, and wait until it is Ready")
	case s.ReadyStatus != v2.Ready:
		return errs.New(errs.Conflict, "the enrollment is "+s.ReadyStatus+": the issuer has not signed all certificates; wait until it is Ready")
	}
	return nil
}

// checkUndistributed requires that no cluster holds what the enrollment is for.
func (a *Authorities) checkUndistributed(ctx context.Context, ca store.Doc) error {
	of, err := a.stageOf(ctx, distribution, ca)
	if err != nil {
		return err
	}
	_, err = a.addonsOf(distribution).Idle(ctx, of, "terminate it before the enrollment")
	return err
}

// status answers a status query.
func (a *Authorities) status(w http.ResponseWriter, r *http.Request, s addonStage) error {
	doc, err := a.requested(r)
	if err != nil {
		return err
	}
	q, err := statusview.ParseCloud(r.URL.Query())
	if err != nil {
		return err
	}
	_, name := split(doc.Key)
	who := v2.StatusSubject{Project: doc.Key.Project(), Name: string(name)}
	return a.addons.Reader.Serve(w, r, q, statusview.Feed{Doc: doc, Read: func(ctx context.Context) (statusview.Answer, error) {
		_, ca, err := a.authorityAt(ctx, doc.Key)
		if err != nil {
			return statusview.Answer{}, err
		}
		of, err := a.stageOf(ctx, s, ca)
		if err != nil {
			return statusview.Answer{}, err
		}
		renewal, err := a.renewalOf(ctx, of)
		if err != nil {
			return statusview.Answer{}, err
		}
		answer, err := a.addons.Reader.Group(ctx, statusview.Subject{Doc: of, Identity: who}, q)
		if err == nil && of.UID == noDocument { // the mirror cannot announce a deployment that has no id yet
			answer.Expires = a.now().Add(beforeFirst)
		}
		return answer.WithRenewal(renewal), err
	}})
}

// renewalOf returns when the certificates of a stage are renewed; nil for one that is not instantiated.
func (a *Authorities) renewalOf(ctx context.Context, stage store.Doc) (*v2.Renewal, error) {
	scheduled, err := store.Decode[renewalSchedule](stage)
	if err != nil || scheduled == (renewalSchedule{}) {
		return nil, err
	}
	head, _, err := lifecycle.Head(ctx, a.contexts, stage)
	if err != nil || !head.State.Live() {
		return nil, err
	}
	return scheduled.of(head).view(), nil
}

// beforeFirst is how often a stream looks whether a stage had its first action.
const beforeFirst = 2 * time.Second
