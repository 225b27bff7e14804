package rsync

import (
	"net"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/kubehealth/kubetest"
)

// A delivery failed because of a document, and the next attempt is an hour away. When the
// document is corrected, EMCO tries again at once.
func TestF05AMendedDocumentIsTriedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 1)
	object, cluster := store.Key("cluster-providers/edge/cluster-sync-objects/r0"), store.Key("cluster-providers/edge/clusters/d0")
	syncObject := func(url, token string) seal.Secret {
		return seal.Secret(`{"metadata":{"name":"r0"},"spec":{"kv":[{"url":"` + url + `","userName":"emco","gitToken":"` + token + `"}]}}`)
	}
	put := func(key store.Key, body string, secret seal.Secret) {
		t.Helper()
		_, err := w.db.Replace(t.Context(), store.Write{Key: key, Body: []byte(body), Secret: secret}, 0)
		w.must(err)
	}
	direct := `{"metadata":{"name":"d0"},"spec":{"gitOps":{}}}`
	live := kubetest.Start(t)
	createNamespace(t, live.Kubeconfig(), "default")
	closed := strings.Replace(string(live.Kubeconfig()), "127.0.0.1", "127.0.0.2", 1) // nothing listens there
	_, err := w.db.Create(t.Context(), store.Write{Key: cluster, Body: []byte(direct), Secret: seal.Secret(closed)})
	w.must(err)
	register(t, w.db, "lost", "missing")

	p := w.process("one", nil)
	p.shared.Retry = pair.Retry{First: time.Hour, Longest: time.Hour}
	w.start(p)
	for uid, tt := range map[string]struct {
		cluster   v2.ClusterKey
		spoil     func()
		mend      func()
		wantError string
	}{
		"7": {"edge+c0", func() { put(object, "", syncObject(w.git.URL("r0"), "wrong")) }, func() { put(object, "", syncObject(w.git.URL("r0"), "secret")) }, ""},
		"8": {"edge+d0", func() {}, func() { put(cluster, direct, seal.Secret(live.Kubeconfig())) }, ""},
		"9": {"edge+lost", func() {}, func() {
			text := seal.Secret(strings.Replace(string(syncObject(w.git.URL("r0"), "secret")), `"r0"`, `"missing"`, 1))
			_, err := w.db.Create(t.Context(), store.Write{Key: "cluster-providers/edge/cluster-sync-objects/missing", Secret: text})
			w.must(err)
		}, "missing"},
	} {
		is := func(phases ...appcontext.Phase) func(map[string]appcontext.Pair) bool {
			return func(pairs map[string]appcontext.Pair) bool {
				got := pairs[string(tt.cluster)+" "+uid]
				for _, phase := range phases {
					if got.Phase == phase && strings.Contains(got.Error, tt.wantError) {
						return true
					}
				}
				return false
			}
		}
		tt.spoil()
		w.wish(appcontext.HeadID(uid), "green", tt.cluster)
		w.until("the failure of "+string(tt.cluster), is(appcontext.Retrying, appcontext.Failed))
		tt.wantError = ""
		tt.mend()
		w.until("the delivery to "+string(tt.cluster), is(appcontext.Applied))
	}
}

func createNamespace(t *testing.T, kubeconfig []byte, name string) {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	if _, err := client.Resource(namespaces).Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A removal that failed is tried at once when a user asks for it again.
func TestF05AFailedRemovalIsTriedWhenItIsAskedForAgain(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 1)
	p := w.process("one", nil)
	p.shared.Retry = pair.Retry{First: time.Hour, Longest: time.Hour}
	w.start(p)
	w.wish("7", "green", "edge+c0")
	w.applied(1, 1)
	hook := w.git.Bare("r0")
	w.must(hook.Reject("closed for stocktaking"))
	w.wish("7", "", []v2.ClusterKey{}...)
	w.until("the refusal", func(pairs map[string]appcontext.Pair) bool { return pairs["edge+c0 7"].Attempt == 1 })
	w.must(hook.Accept())
	head := w.heads["7"]
	to := head
	to.Terminated = time.Now()
	_, err := w.contexts.ChangeHead(t.Context(), head, to, nil, nil)
	w.must(err)
	w.until("the removal", func(pairs map[string]appcontext.Pair) bool { return len(pairs) == 0 })
}

// What was delivered to a direct cluster is watched with a new kubeconfig as soon as it is
// registered: the old one may have ended.
func TestARotatedKubeconfigIsUsedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 1)
	cluster, body := store.Key("cluster-providers/edge/clusters/d0"), []byte(`{"metadata":{"name":"d0"},"spec":{"gitOps":{}}}`)
	live := kubetest.Start(t)
	createNamespace(t, live.Kubeconfig(), "default")
	_, err := w.db.Create(t.Context(), store.Write{Key: cluster, Body: body, Secret: seal.Secret(live.Kubeconfig())})
	w.must(err)
	w.start(w.process("one", nil))
	reported := func(status string) func(map[string]appcontext.Pair) bool {
		return func(map[string]appcontext.Pair) bool {
			reports, err := w.contexts.ReportsAt(t.Context(), []appcontext.PairKey{{Cluster: "edge+d0", Deployment: "7", App: "web"}})
			w.must(err)
			return len(reports) == 1 && len(reports[0].Resources) == 1 && reports[0].Resources[0].Status == status
		}
	}
	label, value := manifest.DeploymentLabel("7", "web")
	w.deploy("7", map[string]string{"web": `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: default, labels: {` + label + `: "` + value + `"}}}`})
	w.until("the first report", reported("Current"))

	live.Rotate()
	_, err = w.db.Replace(t.Context(), store.Write{Key: cluster, Body: body, Secret: seal.Secret(live.Kubeconfig())}, 0)
	w.must(err)
	config, err := clientcmd.RESTConfigFromKubeConfig(live.Kubeconfig())
	w.must(err)
	// With a dialer of its own this client shares no pool of connections with others, which may still hold one that Rotate cut.
	config.Dial = new(net.Dialer).DialContext
	client, err := dynamic.NewForConfig(config)
	w.must(err)
	w.must(client.Resource(configMaps).Namespace("default").Delete(t.Context(), "settings", metav1.DeleteOptions{}))
	w.until("a report of the deleted object", reported("NotFound"))
}
