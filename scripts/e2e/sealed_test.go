package e2e

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/flux"
	"github.com/emco-orchestrator/emco/scripts/testbed/sops"
)

const (
	ageSecret  = "sops-age"
	plainValue = "canary-behind-sops"
	unsealed   = "apiVersion: v1\nkind: Secret\nmetadata: {name: sealed}\nstringData:\n  a: first\n  b: " + plainValue + "\n"
)

// newAgeKey returns the program sops, and a key for it.
func newAgeKey(t *testing.T) (sops.Tool, sops.Key) {
	t.Helper()
	tool, err := sops.Open(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	key, err := tool.NewKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tool, key
}

// TestFluxDecryptsAndWaits deploys an app with a Secret that only the edge can decrypt, and another app
// that depends on it. Without the key on the edge Flux applies neither, although the files of both are
// there; with the key, it decrypts the first and continues with the second.
func TestFluxDecryptsAndWaits(t *testing.T) {
	do := steps{TB: t}
	do.next("a chart with an encrypted Secret, and one that depends on it")
	tool, key := newAgeKey(t)
	sealed, err := tool.Encrypt(t.Context(), key, unsealed)
	if err != nil || strings.Contains(sealed, plainValue) {
		t.Fatalf("encrypt: %v\n%s", err, sealed)
	}
	l, s := clustersOf(t), newStage(t)
	f := s.fleet()
	s.must("register the fleet", f.Found(t.Context(), s.repository()))
	s.must("register", f.RegisterWith(t.Context(), "c2", v2.FluxCD, s.repository(), map[string]v2.Scalar{
		"decryptionProvider": "sops", "decryptionSecretRef": ageSecret, "dependsOn": "native",
		"syncInterval": "1", "retryInterval": "1", "secretRef": flux.Namespace,
	}))
	s.must("open the cloud", f.OpenCloud(t.Context()))
	db := fleet.App{Chart: fleet.Synthetic("db", 3).With("templates/sealed.yaml", sealed)}
	web := fleet.App{Chart: fleet.Synthetic("web", 2), After: []v2.AppDependencySpec{{App: "db", OpStatus: "Deployed"}}}
	d := fleet.Deployment{Name: "till", Apps: []fleet.App{db, web}}
	s.must("onboard", f.Onboard(t.Context(), t.TempDir(), d))
	s.must("instantiate", f.Act(t.Context(), d.Path(), "instantiate"))
	s.wait(d.Path(), "instantiated")
	id := s.status(d.Path()).States.StatusCtxID
	file := "clusters/edge+c2/context/" + id + "/app/db/sealed+Secret.yaml"
	text, err := s.bare.Show(t.Context(), branch, file)
	s.must("read the Secret in Git", err)
	if opened, err := tool.Decrypt(t.Context(), key, text); err != nil || !strings.Contains(opened, plainValue) {
		t.Errorf("the Secret in Git cannot be decrypted: %v\n%s", err, text)
	}

	do.next("Flux has no key: it reports that, and holds back the dependent app")
	l.follow(s)
	eventually(t, "both Kustomizations explain why they are not ready", func() error {
		return errors.Join(
			l.notReady(t, id, "db", ageSecret),
			l.notReady(t, id, "web", "dependency", "emco-"+id+"-db"),
		)
	})
	if list, err := ours(t.Context(), l.c2); err != nil || len(list) > 0 {
		t.Errorf("the cluster contains %v, %v, want nothing", names(list), err)
	}

	do.next("the key is there")
	s.must("apply the key", l.c2.Apply(t.Context(), ageKey(key)))
	available(t, l.c2, d.Name+"-web")
	if got := kubectl(t, l.c2, "get", "secret", "sealed", "-o", "jsonpath={.data.b}"); got != base64.StdEncoding.EncodeToString([]byte(plainValue)) {
		t.Errorf("the Secret contains %q, want the encrypted value", got)
	}
	if first, second := created(t, l.c2, "till-db"), created(t, l.c2, "till-web"); first == "" || second < first {
		t.Errorf("db was created at %q and web at %q, want db first", first, second)
	}

	do.next("terminate")
	s.terminate(d.Path(), l.c2)
	s.sound()
	do.next("done")
}

// TestFluxDecryptsWhatIsSealed deploys an app whose chart renders a readable Secret, with a policy that encrypts it.
// Git holds no value; the program sops opens the file and finds nothing changed; Flux applies the values. An update
// that does not concern the Secret leaves its file as it is.
func TestFluxDecryptsWhatIsSealed(t *testing.T) {
	do := steps{TB: t}
	do.next("a cluster with a recipient, and a policy that encrypts Secrets")
	tool, key := newAgeKey(t)
	l, s := clustersOf(t), newStage(t)
	f := s.fleet()
	s.must("register the fleet", f.Found(t.Context(), s.repository()))
	s.must("register", f.RegisterWith(t.Context(), "c2", v2.FluxCD, s.repository(), map[string]v2.Scalar{
		"decryptionProvider": "sops", "decryptionSecretRef": ageSecret, "ageRecipients": v2.Scalar(key.Public),
		"syncInterval": "1", "retryInterval": "1", "secretRef": flux.Namespace,
	}))
	s.must("open the cloud", f.OpenCloud(t.Context()))
	s.must("apply the key", l.c2.Apply(t.Context(), ageKey(key)))
	chart := fleet.Synthetic("db", 3).With("templates/sealed.yaml", unsealed)
	d := fleet.Deployment{Name: "till", Apps: []fleet.App{{Chart: chart}}}
	s.must("onboard", f.Onboard(t.Context(), t.TempDir(), d))
	s.must("create the policy", f.Policy(t.Context(), "walls", v2.PolicySpec{Secrets: v2.SecretsSeal}))
	s.must("instantiate", f.Act(t.Context(), d.Path(), "instantiate"))
	s.wait(d.Path(), "instantiated")
	id := s.status(d.Path()).States.StatusCtxID
	file := "clusters/edge+c2/context/" + id + "/app/db/sealed+Secret.yaml"
	text, err := s.bare.Show(t.Context(), branch, file)
	s.must("read the Secret in Git", err)
	if strings.Contains(text, plainValue) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(plainValue))) {
		t.Errorf("Git holds the value:\n%s", text)
	}
	if opened, err := tool.Decrypt(t.Context(), key, text); err != nil || !strings.Contains(opened, plainValue) {
		t.Errorf("the Secret in Git cannot be decrypted: %v\n%s", err, text)
	}

	do.next("Flux decrypts it")
	l.follow(s)
	available(t, l.c2, d.Name+"-db")
	eventually(t, "the Secret has its value", func() error {
		got, err := l.c2.Kubectl(t.Context(), "get", "secret", "sealed", "-o", "jsonpath={.data.b}")
		if err == nil && got != base64.StdEncoding.EncodeToString([]byte(plainValue)) {
			err = fmt.Errorf("it contains %q", got)
		}
		return err
	})

	do.next("an update of something else leaves its file")
	s.must("change a value", f.Revalue(t.Context(), d, chart, "colour: green\n"))
	head := s.head()
	s.must("update", f.Act(t.Context(), d.Path(), "update"))
	s.wait(d.Path(), "instantiated")
	if again, err := s.bare.Show(t.Context(), branch, file); err != nil || again != text || s.head() == head {
		t.Errorf("the file of an equal Secret has changed, or nothing was committed: %v\n%s", err, again)
	}

	do.next("terminate")
	s.terminate(d.Path(), l.c2)
	s.sound()
	do.next("done")
}

// notReady checks that the Kustomization of an app is not ready, and that its message contains words.
func (l *sharedClusters) notReady(t *testing.T, id, app string, words ...string) error {
	message, err := l.c2.Kubectl(t.Context(), "get", "-n", flux.Namespace, "kustomization", "emco-"+id+"-"+app,
		"-o", `jsonpath={range .status.conditions[?(@.type=="Ready")]}{.status} {.message}{end}`)
	if err != nil {
		return err
	}
	for _, word := range words {
		if !strings.HasPrefix(message, "False ") || !strings.Contains(message, word) {
			return fmt.Errorf("%s reports %q, want False and %q", app, message, word)
		}
	}
	return nil
}

// created returns the creation time of a Deployment.
func created(t *testing.T, c *cluster.Cluster, name string) string {
	t.Helper()
	return kubectl(t, c, "get", "deployment", name, "-o", "jsonpath={.metadata.creationTimestamp}")
}

// ageKey is the Secret with Flux's keys.
func ageKey(k sops.Key) string {
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]string{"name": ageSecret, "namespace": flux.Namespace},
		"stringData": map[string]string{"edge.agekey": k.File},
	})
	if err != nil {
		panic("no JSON strings: " + err.Error())
	}
	return string(text)
}
