package app

import (
	"context"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/cacert"
)

// signedCertificates reads signed certificates at the clusters of issuers, with the credentials that they are
// registered with.
type signedCertificates struct {
	kube *kube.Sink
	db   *store.DB
}

// Signed implements cacert.Issuers.
func (i signedCertificates) Signed(ctx context.Context, cluster store.Doc, namespace string, deployment v2.DeploymentID, app string) (map[string]cacert.Signed, error) {
	kubeconfig, err := i.db.Reveal(ctx, cluster)
	if err != nil {
		return nil, err
	}
	connection, err := i.kube.Connect(kubeconfig)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	requests, err := connection.CertificateRequests(ctx, namespace, deployment, app)
	out := make(map[string]cacert.Signed, len(requests))
	for name, r := range requests {
		out[name] = cacert.Signed(r)
	}
	return out, err
}
