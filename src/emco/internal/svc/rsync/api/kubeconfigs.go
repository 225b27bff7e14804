package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

const (
	kubeconfigPath = "/v2/projects/{project}/logical-clouds/{logicalCloud}/cluster-references/{clusterReference}/kubeconfig"
	// defaultValid is how long the certificate of a kubeconfig is asked for.
	defaultValid = 30 * 24 * time.Hour
	longestValid = 366 * 24 * time.Hour
)

// Kubeconfigs serves kubeconfigs for the users of logical clouds. Each answer holds a new
// certificate, which the cluster signs; nothing of it is stored.
type Kubeconfigs struct {
	DB       *store.DB
	Contexts *appcontext.Store
	Kube     *kube.Sink
}

// Mount adds the route.
func (k Kubeconfigs) Mount(r *mux.Router) {
	web.Handle(r, http.MethodGet, kubeconfigPath, authz.Permission{Verb: authz.Reveal, Type: "cluster-references"}, k.get)
}

// get answers with a kubeconfig for a direct cluster. The answer for a cluster that pulls its
// state is empty, as in upstream EMCO: nothing here reaches such a cluster.
func (k Kubeconfigs) get(w http.ResponseWriter, r *http.Request) error {
	valid, err := readValid(r)
	if err != nil {
		return err
	}
	v, err := web.Vars(r)
	if err != nil {
		return err
	}
	cloud, ref, err := k.reference(r.Context(), v["project"], v["logicalCloud"], v["clusterReference"])
	if err != nil {
		return err
	}
	text, err := k.kubeconfig(r.Context(), cloud, ref, valid)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("Cache-Control", "no-store")
	_, err = w.Write(text)
	return err
}

// readValid reads how long the certificate is asked for.
func readValid(r *http.Request) (time.Duration, error) {
	if err := web.CheckQuery(r.URL.Query(), "valid"); err != nil {
		return 0, err
	}
	text := r.URL.Query().Get("valid")
	if text == "" {
		return defaultValid, nil
	}
	valid, err := time.ParseDuration(text)
	if err != nil || valid < 10*time.Minute || valid > longestValid {
		return 0, errs.New(errs.Invalid, "Invalid query valid: "+strconv.Quote(text)+" is no duration from 10m to 8784h")
	}
	return valid, nil
}

// reference reads a cluster reference and its logical cloud, which must be instantiated.
func (k Kubeconfigs) reference(ctx context.Context, project, cloud, name string) (lc v2.LogicalCloud, ref v2.ClusterReference, err error) {
	key := store.Key(v2.LogicalCloudKey{Project: project, Name: cloud}.StoreKey())
	doc, err := k.DB.Get(ctx, key)
	if err != nil {
		return lc, ref, store.NotFoundAs(err, "LogicalCloud not found")
	}
	if lc, err = store.Decode[v2.LogicalCloud](doc); err != nil {
		return lc, ref, err
	}
	refDoc, err := k.DB.Get(ctx, key+"/cluster-references/"+store.Key(name))
	if err != nil {
		return lc, ref, store.NotFoundAs(err, "Cluster Reference not found")
	}
	if ref, err = store.Decode[v2.ClusterReference](refDoc); err != nil {
		return lc, ref, err
	}
	if lc.Spec.Level == v2.LevelAdmin {
		return lc, ref, errs.New(errs.Invalid, "a logical cloud of level 0 has no user; use the kubeconfig that the cluster was registered with")
	}
	head, err := k.Contexts.Head(ctx, appcontext.HeadID(doc.UID))
	if err != nil && !errs.Is(err, errs.NotFound) {
		return lc, ref, err
	}
	if head.State != appcontext.Instantiated {
		return lc, ref, errs.New(errs.Conflict, "Logical Cloud hasn't been instantiated")
	}
	return lc, ref, nil
}

// kubeconfig has the cluster sign a certificate for the cloud's user.
func (k Kubeconfigs) kubeconfig(ctx context.Context, lc v2.LogicalCloud, ref v2.ClusterReference, valid time.Duration) ([]byte, error) {
	key := v2.NewClusterKey(ref.Spec.ClusterProvider, ref.Spec.Cluster)
	doc, err := k.DB.Get(ctx, store.Key(key.StoreKey()))
	if err != nil {
		return nil, store.NotFoundAs(err, "cluster "+string(key)+" is not registered")
	}
	cluster, err := store.Decode[v2.Cluster](doc)
	if err != nil || !cluster.Direct() {
		return nil, err
	}
	admin, err := k.DB.Reveal(ctx, doc)
	if err != nil {
		return nil, err
	}
	connection, err := k.Kube.Connect(admin)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	user := lc.Spec.User.Name
	text, err := connection.Kubeconfig(ctx, kube.User{Name: user, Valid: valid}, user+"@"+ref.Metadata.Name, lc.Spec.Namespace)
	if errs.Is(err, errs.Unauthorized) || errs.Is(err, errs.Forbidden) { // EMCO at the cluster, not the caller here
		err = errs.New(errs.Unavailable, "the cluster refuses the credentials that it is registered with: "+err.Error())
	}
	return text, err
}
