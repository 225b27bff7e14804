package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/testbed/flux"
	"github.com/emco-orchestrator/emco/scripts/testbed/s3"
)

// bucketBootstrap is that of docs/backends/s3.md, with the address, the keys and the
// interval of a test.
const bucketBootstrap = `apiVersion: v1
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

// TestFluxReadsABucket has Flux read what is published to a real S3 server, beside the
// folder of another cluster.
func TestFluxReadsABucket(t *testing.T) {
	do := steps{TB: t}
	do.next("two clusters that read a bucket")
	l, st := clustersOf(t), newStage(t)
	store, err := s3.Start(t.Context(), s3.Options{Dir: filepath.Join(t.TempDir(), "s3"), Progress: os.Stderr})
	st.must("start the S3 server", err)
	t.Cleanup(store.Stop)
	st.must("make the bucket", store.CreateBucket("fleet"))
	f := st.fleet()
	st.must("found the fleet", f.Found(t.Context(), st.repository()))
	for _, name := range []string{"c2", "c20"} {
		st.must("register", f.RegisterBucket(t.Context(), name, map[string]v2.Scalar{
			"endpoint": v2.Scalar("http://" + store.Address()), "bucket": "fleet", "prefix": "edge",
			"accessKey": v2.Scalar(store.AccessKey), "secretKey": v2.Scalar(store.SecretKey), "syncInterval": "1", "retryInterval": "1",
		}))
	}
	st.must("open the cloud", f.OpenCloud(t.Context()))
	chart := fleet.Synthetic("web", 3)
	d := fleet.Deployment{Name: "till", Apps: []fleet.App{{Chart: chart}}}
	st.must("onboard", f.Onboard(t.Context(), t.TempDir(), d))
	st.must("instantiate", f.Act(t.Context(), d.Path(), "instantiate"))
	st.wait(d.Path(), "instantiated")

	do.next("Flux is pointed at the folder")
	st.must("point Flux at it", l.c2.Apply(t.Context(), fmt.Sprintf(bucketBootstrap, store.Address(), store.AccessKey, store.SecretKey)))
	eventually(t, "the objects are there", func() error {
		list, err := ours(t.Context(), l.c2)
		if err == nil && len(list) != 3 {
			err = fmt.Errorf("there are %v", names(list))
		}
		return err
	})
	revision := kubectl(t, l.c2, "get", "-n", flux.Namespace, "bucket", "emco", "-o", "jsonpath={.status.artifact.revision}")
	if !strings.Contains(st.ctl("status", d.Path(), "-o", "json"), revision) || !strings.HasPrefix(revision, "sha256:") {
		t.Errorf("the status does not name revision %q", revision)
	}

	do.next("terminate")
	st.must("terminate", f.Act(t.Context(), d.Path(), "terminate"))
	st.wait(d.Path(), "terminated")
	empty(t, l.c2)
	do.next("done")
}
