package agent_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/monitor/internal/config"
)

// With the rights of its account the monitor sees objects come and go, also of kinds that
// it does not know.
func TestTheMonitorSaysHowObjectsAreDoing(t *testing.T) {
	l := newLab(t)
	l.create(configMaps, l.ns, object("v1", "ConfigMap", "not-ours", nil))
	l.create(configMaps, l.ns, l.ours(object("v1", "ConfigMap", "conf", map[string]any{"data": map[string]any{"k": "canary-of-data"}})))
	l.create(secrets, l.ns, l.ours(object("v1", "Secret", "pass", map[string]any{"stringData": map[string]any{"k": "canary-of-secret"}})))
	l.create(deploys, l.ns, l.deployment("web"))
	stuck := l.deployment("stuck")
	if err := unstructured.SetNestedField(stuck.Object, map[string]any{"no": "such-node"}, "spec", "template", "spec", "nodeSelector"); err != nil {
		t.Fatal(err)
	}
	l.create(deploys, l.ns, stuck)
	l.monitor()
	r := l.await("ConfigMap/conf=Current", "Deployment/stuck=InProgress", "Deployment/web=Current", "Pod/*=Current", "Pod/*=InProgress")
	for _, o := range appOf(r, l.label).Objects {
		if o.Kind != "Pod" && o.Content != "stamp-of-"+o.Name || o.Kind == "Pod" && o.Content != "" {
			t.Errorf("content of %s %s is %q", o.Kind, o.Name, o.Content)
		}
		if (o.Status == status.Current) != (o.Reason == "") {
			t.Errorf("%s %s is %s because of %q", o.Kind, o.Name, o.Status, o.Reason)
		}
	}
	unseen := map[string]string{}
	for _, u := range r.Unseen {
		unseen[u.Kind+"."+u.Group] = u.Reason
	}
	if unseen["Secret."] != "excluded" || unseen["Node."] != "forbidden" || unseen["ConfigMap."] != "" || r.Cluster != l.cluster || !strings.HasPrefix(r.Agent, "monitor/") {
		t.Errorf("report of %s by %s does not see %v, want Secrets excluded and Nodes forbidden", r.Cluster, r.Agent, unseen)
	}
	l.delete(configMaps, l.ns, "conf")
	l.delete(deploys, l.ns, "stuck")
	later := l.await("Deployment/web=Current", "Pod/*=Current")
	if later.Seq <= r.Seq {
		t.Errorf("sequence went from %d to %d", r.Seq, later.Seq)
	}
}

// A Helm hook is done when it is done, and not when it has started.
func TestAHookIsInProgressUntilItCompletes(t *testing.T) {
	l := newLab(t)
	hook := l.ours(object("batch/v1", "Job", "migrate", map[string]any{"spec": map[string]any{
		"suspend": true,
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{status.DeploymentLabel: l.label}},
			"spec":     map[string]any{"restartPolicy": "Never", "containers": []any{map[string]any{"name": "c", "image": "i"}}},
		},
	}}))
	notes := hook.GetAnnotations()
	notes["helm.sh/hook"] = "pre-install"
	hook.SetAnnotations(notes)
	l.create(jobs, l.ns, hook)
	l.monitor()
	l.await("Job/migrate=InProgress")
	resume := []byte(`{"spec":{"suspend":false}}`)
	if _, err := l.at(jobs, l.ns).Patch(t.Context(), "migrate", "application/merge-patch+json", resume, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	l.await("Job/migrate=Current", "Pod/*=Current")
}

// What the shipped rights allow: all that is needed, and no Secret.
func TestTheRightsAreTheLeast(t *testing.T) {
	l := newLab(t)
	edgeConfig, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	edge, err := dynamic.NewForConfig(edgeConfig)
	if err != nil {
		t.Fatal(err)
	}
	nodes := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	for _, c := range []struct {
		what    string
		try     func() error
		allowed bool
	}{
		{"list ConfigMaps", func() error { _, err := edge.Resource(configMaps).List(t.Context(), metav1.ListOptions{}); return err }, true},
		{"list Deployments", func() error { _, err := edge.Resource(deploys).List(t.Context(), metav1.ListOptions{}); return err }, true},
		{"list definitions", func() error { _, err := edge.Resource(crds).List(t.Context(), metav1.ListOptions{}); return err }, true},
		{"list states", func() error { _, err := edge.Resource(states).List(t.Context(), metav1.ListOptions{}); return err }, true},
		{"list Secrets", func() error { _, err := edge.Resource(secrets).List(t.Context(), metav1.ListOptions{}); return err }, false},
		{"get a Secret", func() error {
			_, err := edge.Resource(secrets).Namespace(l.ns).Get(t.Context(), "any", metav1.GetOptions{})
			return err
		}, false},
		{"list Nodes", func() error { _, err := edge.Resource(nodes).List(t.Context(), metav1.ListOptions{}); return err }, false},
		{"create a ConfigMap", func() error {
			_, err := edge.Resource(configMaps).Namespace(l.ns).Create(t.Context(), object("v1", "ConfigMap", "x", nil), metav1.CreateOptions{})
			return err
		}, false},
		{"delete a Deployment", func() error {
			return edge.Resource(deploys).Namespace(l.ns).Delete(t.Context(), "any", metav1.DeleteOptions{})
		}, false},
		{"write the spec of a state", func() error {
			_, err := edge.Resource(states).Namespace(l.ns).Patch(t.Context(), "any", "application/merge-patch+json", []byte(`{"spec":{}}`), metav1.PatchOptions{})
			return err
		}, false},
		{"make a token of its own account", func() error {
			_, err := edge.Resource(accounts).Namespace("emco-monitor").Create(t.Context(), object("authentication.k8s.io/v1", "TokenRequest", "emco-monitor", nil), metav1.CreateOptions{}, "token")
			return err
		}, false},
	} {
		if err := c.try(); c.allowed && err != nil || !c.allowed && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want allowed: %v", c.what, err, c.allowed)
		}
	}
}

// The monitor keeps upstream's object for each app, without what must not be in it, and
// takes it away with the app. Those that others made stay, and follow their selector.
func TestResourceBundleStates(t *testing.T) {
	l := newLab(t)
	l.create(configMaps, l.ns, l.ours(object("v1", "ConfigMap", "conf", map[string]any{"data": map[string]any{"k": "canary-of-data"}})))
	l.create(secrets, l.ns, l.ours(object("v1", "Secret", "pass", map[string]any{"stringData": map[string]any{"k": "canary-of-secret"}})))
	l.create(accounts, l.ns, l.ours(object("v1", "ServiceAccount", "web", nil)))
	l.create(deploys, l.ns, l.deployment("web"))
	foreign := object("k8splugin.io/v1alpha1", "ResourceBundleState", "made-by-others", map[string]any{
		"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{status.DeploymentLabel: "1-nothing"}}},
	})
	l.create(states, l.ns, foreign)
	stop := l.monitor()
	l.eventually("the state of the app", func() error {
		body, err := l.state(l.label)
		if err != nil {
			return err
		}
		for list, want := range map[string]int{"deploymentStatuses": 1, "podStatuses": 1, "configMapStatuses": 1, "serviceStatuses": 0, "resourceStatuses": 1} {
			if have, _ := body[list].([]any); len(have) != want {
				return fmt.Errorf("%s has %d objects, want %d: %s", list, len(have), want, text(body))
			}
		}
		if body["ready"] != true || body["resourceCount"] != int64(4) {
			return fmt.Errorf("ready is %v, count %v", body["ready"], body["resourceCount"])
		}
		for _, never := range []string{"canary", "managedFields", "last-applied"} {
			if strings.Contains(text(body), never) {
				t.Errorf("the state holds %s", never)
			}
		}
		return nil
	})
	if body, err := l.state("made-by-others"); err != nil || body["ready"] != false || body["resourceCount"] != int64(0) {
		t.Errorf("the state of nothing is %s, %v", text(body), err)
	}
	patch := fmt.Appendf(nil, `{"spec":{"selector":{"matchLabels":{%q:%q}}}}`, status.DeploymentLabel, l.label)
	if _, err := l.at(states, l.ns).Patch(t.Context(), "made-by-others", "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	l.eventually("the state that was pointed at the app", func() error {
		body, err := l.state("made-by-others")
		if err == nil && body["ready"] != true {
			err = errors.New(text(body))
		}
		return err
	})
	stop()
	if _, err := l.at(states, l.ns).Patch(t.Context(), l.label, "application/merge-patch+json", []byte(`{"status":{"ready":false,"podStatuses":[]}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	l.delete(accounts, l.ns, "web")
	l.monitor() // meanwhile the app changed, and another client wrote to the state
	l.eventually("the state after a restart", func() error {
		body, err := l.state(l.label)
		if have, _ := body["resourceStatuses"].([]any); err == nil && (len(have) != 0 || body["ready"] != true) {
			err = errors.New(text(body))
		}
		return err
	})
	background := metav1.DeletePropagationBackground
	if err := l.at(deploys, l.ns).Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	l.delete(configMaps, l.ns, "conf")
	l.eventually("the end of the app", func() error {
		if _, err := l.state(l.label); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the state that the monitor made: %w", err)
		}
		body, err := l.state("made-by-others")
		if err == nil && body["resourceCount"] != int64(0) {
			err = errors.New(text(body))
		}
		return err
	})
}

// While the API server does not answer, its kinds are unseen and no object is reported as
// deleted. A monitor that starts in that time sends no report.
func TestAnAPIServerThatDoesNotAnswerIsReported(t *testing.T) {
	l := newLab(t)
	l.create(configMaps, l.ns, l.ours(object("v1", "ConfigMap", "conf", nil)))
	stop := l.monitor()
	l.await("ConfigMap/conf=Current")
	l.proxy.set(true)
	away := func() error {
		r, err := l.report()
		if err != nil {
			return err
		}
		for _, u := range r.Unseen {
			if u.Kind == "ConfigMap" && strings.HasPrefix(u.Reason, "no answer since ") {
				return nil
			}
		}
		return fmt.Errorf("report %d does not see %v", r.Seq, r.Unseen)
	}
	l.eventually("the report of the outage", away)
	stop()
	before, err := l.report()
	if err != nil {
		t.Fatal(err)
	}
	l.monitor()
	l.proxy.set(false)
	after := l.await("ConfigMap/conf=Current")
	if after.Seq <= before.Seq {
		t.Errorf("sequence went from %d to %d", before.Seq, after.Seq)
	}
}

// Upstream's path is a mode for those who cannot have branches; it needs a right to write
// the shared branch.
func TestEMCOsPath(t *testing.T) {
	l := newLab(t)
	l.create(configMaps, l.ns, l.ours(object("v1", "ConfigMap", "conf", nil)))
	l.monitor(func(c *config.Config) { c.Mode, c.Branch, c.User, c.Token = config.SharedBranch, "main", "emco", "e" })
	id, app, _ := strings.Cut(l.label, "-")
	root := "clusters/" + l.cluster + "/status/"
	file := root + id + "/app/" + app + "/" + l.label
	var first string
	l.eventually("the file of the app", func() (err error) {
		first, err = l.bare.Show(t.Context(), "main", file)
		return err
	})
	r, err := status.Decode([]byte(first))
	if err != nil || len(r.Apps) != 1 || statusLines(r.Apps[0])[0] != "ConfigMap/conf=Current" {
		t.Errorf("the file holds %+v, %v", r, err)
	}
	seq := r.Seq
	l.eventually("a sign of life", func() error {
		text, err := l.bare.Show(t.Context(), "main", root+status.File)
		if err != nil {
			return err
		}
		r, err := status.Decode([]byte(text))
		if err == nil && r.Seq <= seq {
			err = fmt.Errorf("sequence is still %d", r.Seq)
		}
		return err
	})
	if again, err := l.bare.Show(t.Context(), "main", file); err != nil || again != first {
		t.Errorf("the file of an app without news was written again: %v", err)
	}
	l.delete(configMaps, l.ns, "conf")
	l.eventually("the end of the file", func() error {
		if _, err := l.bare.Show(t.Context(), "main", file); err == nil {
			return errors.New("it is still there")
		}
		return nil
	})
	if readme, err := l.bare.Show(t.Context(), "main", "README.md"); err != nil || readme == "" {
		t.Errorf("the file of someone else: %q, %v", readme, err)
	}
}

// A kind that comes with an app is followed, given the right to read it.
func TestAKindThatAppearsIsFollowed(t *testing.T) {
	l := newLab(t)
	group := l.ns + ".example.org"
	role := object("rbac.authorization.k8s.io/v1", "ClusterRole", l.ns, map[string]any{"rules": []any{map[string]any{
		"apiGroups": []any{group}, "resources": []any{"*"}, "verbs": []any{"get", "list", "watch"},
	}}})
	l.create(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, "", role)
	l.create(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}, "",
		object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", l.ns, map[string]any{
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": l.ns},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": "emco-monitor", "namespace": "emco-monitor"}},
		}))
	l.monitor()
	l.await()
	l.create(crds, "", l.ours(object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "things."+group, map[string]any{"spec": map[string]any{
		"group": group, "scope": "Namespaced", "names": map[string]any{"kind": "Thing", "plural": "things", "singular": "thing"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
			"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		}}},
	}})))
	thing := l.ours(object(group+"/v1", "Thing", "one", map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False", "message": "not yet"}}}}))
	l.create(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}, l.ns, thing)
	l.await("CustomResourceDefinition/things."+group+"=Current", "Thing/one=InProgress")
}
