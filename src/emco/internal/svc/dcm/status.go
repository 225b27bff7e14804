package dcm

import (
	"context"
	"net/http"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusview"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// WithStatus makes r read the status; r follows changes. Without it each query reads etcd.
func (c *Clouds) WithStatus(r *statusview.Reader) *Clouds {
	c.reader, c.addons.Reader = r, r
	return c
}

// status answers a status query. Upstream's scripts poll it and read deployedStatus in each
// view.
func (c *Clouds) status(w http.ResponseWriter, r *http.Request) error {
	doc, err := c.cloud(r)
	if err != nil {
		return err
	}
	q, err := statusview.ParseCloud(r.URL.Query())
	if err != nil {
		return err
	}
	return c.reader.Serve(w, r, q, c.feed(doc, q))
}

// Status returns a feed of a cloud's status; NotFound if the cloud does not exist.
func (c *Clouds) Status(ctx context.Context, who v2.StatusSubject, q statusview.Query) (statusview.Feed, error) {
	doc, err := c.cloudAt(ctx, store.Key(who.LogicalCloud().StoreKey()))
	return c.feed(doc, q), err
}

// feed reads the document for each answer: it ends with NotFound when the document is
// deleted.
func (c *Clouds) feed(doc store.Doc, q statusview.Query) statusview.Feed {
	return statusview.Feed{Doc: doc, Read: func(ctx context.Context) (statusview.Answer, error) {
		doc, err := c.cloudAt(ctx, doc.Key)
		if err != nil {
			return statusview.Answer{}, err
		}
		of := statusview.Subject{Doc: doc, Identity: identity(doc)}
		cloud, err := store.Decode[v2.LogicalCloud](doc)
		if err != nil {
			return statusview.Answer{}, err
		}
		if cloud.Spec.Level != v2.LevelAdmin {
			return c.reader.Group(ctx, of, q)
		}
		clusters, err := c.members(ctx, doc.Key)
		if err != nil {
			return statusview.Answer{}, err
		}
		return c.reader.Cloud(ctx, of, q, clusters)
	}}
}

// members returns the clusters of a cloud.
func (c *Clouds) members(ctx context.Context, cloud store.Key) (out []v2.ClusterKey, err error) {
	for ref, err := range store.All[v2.ClusterReference](ctx, c.db, cloud+"/cluster-references", store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		out = append(out, v2.NewClusterKey(ref.Value.Spec.ClusterProvider, ref.Value.Spec.Cluster))
	}
	return out, nil
}

func identity(doc store.Doc) v2.StatusSubject {
	k, _ := v2.LogicalCloudOf(string(doc.Key))
	return v2.StatusSubject{Project: k.Project, Name: k.Name}
}
