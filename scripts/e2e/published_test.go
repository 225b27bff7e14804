package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/testbed/flux"
	"github.com/emco-orchestrator/emco/scripts/testbed/registry"
	"github.com/emco-orchestrator/emco/scripts/testbed/s3"
)

// publishTarget is a server other than Git that serves published folders to clusters.
type publishTarget struct {
	kind   string               // of cluster
	keys   map[string]v2.Scalar // of sync objects
	edge   string               // the objects on c2 that point Flux at it
	source string               // kind and name of the reading object among these
}

// published runs Flux on c2 on its published folder, next to the folder of a cluster with a longer
// name. Objects arrive, the status names Flux's revision, and nothing is left at the end.
func published(t *testing.T, o publishTarget) {
	do := steps{TB: t}
	do.next("two clusters of type %s", o.kind)
	l, st := clustersOf(t), newStage(t)
	f := st.fleet()
	st.must("register the fleet", f.Found(t.Context(), st.repository()))
	for _, name := range []string{"c2", "c20"} {
		st.must("register", f.RegisterPublished(t.Context(), name, o.kind, o.keys))
	}
	st.must("open the cloud", f.OpenCloud(t.Context()))
	d := fleet.Deployment{Name: "till", Apps: []fleet.App{{Chart: fleet.Synthetic("web", 3)}}}
	st.must("onboard", f.Onboard(t.Context(), t.TempDir(), d))
	st.must("instantiate", f.Act(t.Context(), d.Path(), "instantiate"))
	st.wait(d.Path(), "instantiated")

	do.next("Flux is pointed at the folder")
	st.must("point Flux at the folder", l.c2.Apply(t.Context(), o.edge))
	eventually(t, "the objects are there", func() error {
		list, err := ours(t.Context(), l.c2)
		if err == nil && len(list) != 3 {
			err = fmt.Errorf("there are %v", names(list))
		}
		return err
	})
	revision := kubectl(t, l.c2, "get", "-n", flux.Namespace, o.source, "-o", "jsonpath={.status.artifact.revision}")
	_, digest, ok := strings.Cut("@"+revision, "@sha256:")
	if shown := st.ctl("status", d.Path(), "-o", "json"); !ok || !strings.Contains(shown, "sha256:"+digest) {
		t.Errorf("the status does not name revision %q:\n%s", revision, shown)
	}

	do.next("terminate")
	st.must("terminate", f.Act(t.Context(), d.Path(), "terminate"))
	st.wait(d.Path(), "terminated")
	empty(t, l.c2)
	do.next("done")
}

// bucketEdge is the bootstrap of docs/backends/s3.md, with the address, the keys and the
// interval of a test.
const bucketEdge = `apiVersion: v1
kind: Secret
metadata: {name: emco-bucket, namespace: flux-system}
stringData: {accesskey: %[2]s, secretkey: %[3]s}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: Bucket
metadata: {name: emco, namespace: flux-system}
spec:
  interval: 1000ms
  endpoint: %[1]s
  insecure: true
  bucketName: fleet
  prefix: edge/clusters/edge+c2/
  secretRef: {name: emco-bucket}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: emco, namespace: flux-system}
spec:
  interval: 1000ms
  retryInterval: 1000ms
  path: ./edge/clusters/edge+c2
  prune: true
  sourceRef: {kind: Bucket, name: emco}
`

func TestFluxReadsABucket(t *testing.T) {
	store, err := s3.Start(t.Context(), s3.Options{Dir: filepath.Join(t.TempDir(), "s3"), Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Stop)
	if err := store.CreateBucket("fleet"); err != nil {
		t.Fatal(err)
	}
	published(t, publishTarget{
		kind: v2.S3,
		keys: map[string]v2.Scalar{
			"endpoint": v2.Scalar("http://" + store.Address()), "bucket": "fleet", "prefix": "edge",
			"accessKey": v2.Scalar(store.AccessKey), "secretKey": v2.Scalar(store.SecretKey), "syncInterval": "1", "retryInterval": "1",
		},
		edge:   fmt.Sprintf(bucketEdge, store.Address(), store.AccessKey, store.SecretKey),
		source: "bucket/emco",
	})
}

// artifactEdge is the bootstrap of docs/backends/oci.md, with the address and the interval of a test.
const artifactEdge = `apiVersion: v1
kind: Secret
metadata: {name: emco-registry, namespace: flux-system}
type: kubernetes.io/dockerconfigjson
stringData:
  .dockerconfigjson: '{"auths": {%[1]q: {"auth": %[2]q}}}'
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {name: emco, namespace: flux-system}
spec:
  interval: 1000ms
  url: oci://%[1]s/fleet/edge
  insecure: true
  ref: {tag: edge_c2}
  secretRef: {name: emco-registry}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: emco, namespace: flux-system}
spec:
  interval: 1000ms
  retryInterval: 1000ms
  path: ./clusters/edge+c2
  prune: true
  sourceRef: {kind: OCIRepository, name: emco}
`

func TestFluxReadsAnArtifact(t *testing.T) {
	shelf, err := registry.Start(t.Context(), registry.Options{Dir: filepath.Join(t.TempDir(), "registry"), Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shelf.Stop)
	login := base64.StdEncoding.EncodeToString([]byte(shelf.User + ":" + shelf.Password))
	published(t, publishTarget{
		kind: v2.OCI,
		keys: map[string]v2.Scalar{
			"url": v2.Scalar("http://" + shelf.Address() + "/fleet/edge"), "userName": v2.Scalar(shelf.User), "gitToken": v2.Scalar(shelf.Password),
			"syncInterval": "1", "retryInterval": "1",
		},
		edge:   fmt.Sprintf(artifactEdge, shelf.Address(), login),
		source: "ocirepository/emco",
	})
}
