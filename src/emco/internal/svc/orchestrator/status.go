package orchestrator

import (
	"context"
	"net/http"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusview"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// WithStatus has the status read by r, which knows of changes. Without it each question
// is answered from etcd.
func (g *Groups) WithStatus(r *statusview.Reader) *Groups {
	g.reader = r
	return g
}

// status answers a status query.
func (g *Groups) status(w http.ResponseWriter, r *http.Request) error {
	doc, err := g.group(r)
	if err != nil {
		return err
	}
	q, err := statusview.ParseGroup(r.URL.Query())
	if err != nil {
		return err
	}
	return g.reader.Serve(w, r, q, g.feed(doc, q))
}

// Status returns the status of a group, to be followed. NotFound if there is none.
func (g *Groups) Status(ctx context.Context, who v2.Identity, q statusview.Query) (statusview.Feed, error) {
	doc, err := g.groupAt(ctx, groupKey(who.Project, who.CompositeApp, who.CompositeAppVersion, who.Name))
	return g.feed(doc, q), err
}

// feed reads the document anew each time: it ends with NotFound once it is deleted.
func (g *Groups) feed(doc store.Doc, q statusview.Query) statusview.Feed {
	return statusview.Feed{UID: doc.UID, Read: func(ctx context.Context) (statusview.Answer, error) {
		doc, err := g.groupAt(ctx, doc.Key)
		if err != nil {
			return statusview.Answer{}, err
		}
		who, err := g.identity(doc)
		if err != nil {
			return statusview.Answer{}, err
		}
		return g.reader.Group(ctx, statusview.Subject{Doc: doc, Identity: who.Identity}, q)
	}}
}

// identity is what names the group in an answer.
func (g *Groups) identity(doc store.Doc) (v2.Status, error) {
	group, err := store.Decode[v2.DeploymentIntentGroup](doc)
	part := strings.Split(string(doc.Key), "/") // projects/P/composite-apps/C/V/deployment-intent-groups/D
	return v2.Status{Identity: v2.Identity{
		Project: part[1], CompositeApp: part[3], CompositeAppVersion: part[4],
		CompositeProfile: group.Spec.Profile, Name: part[6],
	}}, err
}
