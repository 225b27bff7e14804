package orchestrator

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/patch"
)

// editor is a controller that makes one edit to the app "web".
type editor struct{ edit customize.Edit }

func (e *editor) Customize(context.Context, customize.Deployment) (out customize.Edits, err error) {
	if e.edit.App != "" {
		out.Edits = append(out.Edits, e.edit)
	}
	return out, nil
}

// cloudOfLevel1 makes the instantiated logical cloud "team", and an approved group in it whose intent names the
// controller "editor".
func (p *controlPlane) cloudOfLevel1() (testGroup, *editor) {
	p.Helper()
	e := &editor{}
	p.groups.WithControllers(map[string]customize.Controller{"editor": e}, nil)
	g := p.level1Group()
	p.want(201, "POST "+g.path()+"/intents", `{"metadata":{"name":"k8s"},"spec":{"intent":{"editor":"i"}}}`)
	g.acts("approve")
	return g, e
}

// Templates of ways out. The namespace of the logical cloud is "team".
const (
	rbacObject = "apiVersion: rbac.authorization.k8s.io/v1\nkind: "
	inBank     = "metadata: {name: a, namespace: bank}\n"
	podOf      = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: i}], "
)

// wayOut is an attempt of a project's user to reach beyond a logical cloud of level 1.
type wayOut struct {
	name     string
	template string          // of the app's chart; empty: a harmless one
	edit     *customize.Edit // of a controller
	policy   string          // a policy of the project that is needed to close it; empty: none
	rule     string          // that it breaks, or another reason of the refusal
}

func waysOut() []wayOut {
	const strict = `{"mode":"strict","kinds":["*"]}`
	move := func(kind patch.Type, text string) *customize.Edit {
		return &customize.Edit{App: "web", Origin: "the editor", Patch: &customize.Patch{Target: customize.Target{Kind: "ConfigMap", Name: "a"}, Type: kind, Text: []byte(text)}}
	}
	add := func(text string) *customize.Edit {
		return &customize.Edit{App: "web", Origin: "the editor", Object: []byte(text)}
	}
	return []wayOut{
		{name: "another namespace", template: "apiVersion: v1\nkind: ConfigMap\n" + inBank, rule: ": namespaces)"},
		{name: "the namespace of the system", template: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: kube-system}\n", rule: ": namespaces)"},
		{name: "a namespace that begins like its own", template: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: team-b}\n", rule: ": namespaces)"},
		{name: "an object of another namespace in a List", template: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: a, namespace: bank}}\n", rule: ": namespaces)"},
		{name: "a List in a List", template: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: bank}}]}\n", rule: "is a list within a list"},
		{name: "a List of one kind", template: "apiVersion: v1\nkind: ConfigMapList\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: bank}}\n", rule: ": namespaces)"},
		{name: "a hook in another namespace", template: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, namespace: bank, annotations: {helm.sh/hook: pre-install}}\nspec: {template: {spec: {containers: [{name: c, image: i}]}}}\n", rule: ": namespaces)"},
		{name: "a hook with a ClusterRoleBinding", template: rbacObject + "ClusterRoleBinding\nmetadata: {name: a, annotations: {helm.sh/hook: pre-install}}\nroleRef: {kind: ClusterRole, name: cluster-admin}\n", rule: ": permissions)"},
		{name: "a hook that runs when it is removed", template: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, namespace: bank, annotations: {helm.sh/hook: post-delete}}\nspec: {template: {spec: {containers: [{name: c, image: i}]}}}\n", rule: ": namespaces)"},
		{name: "a Namespace", template: "apiVersion: v1\nkind: Namespace\nmetadata: {name: bank}\n", rule: ": cluster-scoped)"},
		{name: "a Namespace that says that it is in the own one", template: "apiVersion: v1\nkind: Namespace\nmetadata: {name: bank, namespace: team}\n", rule: ": cluster-scoped)"},
		{name: "a ClusterRole", template: rbacObject + "ClusterRole\nmetadata: {name: a}\nrules: []\n", rule: ": permissions)"},
		{name: "a ClusterRoleBinding", template: rbacObject + "ClusterRoleBinding\nmetadata: {name: a}\nroleRef: {kind: ClusterRole, name: view}\n", rule: ": permissions)"},
		{name: "cluster-admin in the own namespace", template: rbacObject + "RoleBinding\nmetadata: {name: a}\nroleRef: {kind: ClusterRole, name: cluster-admin}\n", rule: ": permissions)"},
		{name: "a binding in another namespace", template: rbacObject + "RoleBinding\n" + inBank + "roleRef: {kind: Role, name: a}\n", rule: ": namespaces)"},
		{name: "a role that escalates", template: rbacObject + "Role\nmetadata: {name: a}\nrules: [{apiGroups: ['*'], resources: [roles], verbs: [escalate]}]\n", rule: ": permissions)"},
		{name: "a role that binds", template: rbacObject + "Role\nmetadata: {name: a}\nrules: [{apiGroups: ['*'], resources: [clusterroles], verbs: [bind]}]\n", rule: ": permissions)"},
		{name: "a role that impersonates", template: rbacObject + "Role\nmetadata: {name: a}\nrules: [{apiGroups: [''], resources: [users], verbs: [impersonate]}]\n", rule: ": permissions)"},
		{name: "tokens of service accounts", template: rbacObject + "Role\nmetadata: {name: a}\nrules: [{apiGroups: [''], resources: [serviceaccounts/token], verbs: [create]}]\n", rule: ": permissions)"},
		{name: "the token of a service account", template: "apiVersion: v1\nkind: Secret\nmetadata: {name: a, annotations: {kubernetes.io/service-account.name: admin}}\ntype: kubernetes.io/service-account-token\n", rule: ": permissions)"},
		{name: "a CRD", template: "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.b.c}\nspec: {group: b.c, scope: Cluster, names: {kind: A, plural: as}}\n", rule: ": definitions)"},
		{name: "an object of the whole cluster of a kind that the app defines", template: "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.b.c}\nspec: {group: b.c, scope: Cluster, names: {kind: A, plural: as}}\n---\napiVersion: b.c/v1\nkind: A\nmetadata: {name: a}\n", rule: ": cluster-scoped)"},
		{name: "a webhook", template: "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: a}\n", rule: ": webhooks)"},
		{name: "an APIService", template: "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.a}\n", rule: ": webhooks)"},
		{name: "a PersistentVolume", template: "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: a}\nspec: {hostPath: {path: /}}\n", rule: ": cluster-scoped)"},
		{name: "a PriorityClass", template: "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: a}\nvalue: 1000000\n", rule: ": cluster-scoped)"},
		{name: "a Kustomization of another cluster's folder", template: "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: a}\nspec: {path: clusters/other}\n", rule: ": gitops)"},
		{name: "an Application of Argo CD", template: "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a}\n", rule: ": gitops)"},
		{name: "an order to the monitor", template: "apiVersion: k8splugin.io/v1alpha1\nkind: ResourceBundleState\nmetadata: {name: a}\n", rule: ": gitops)"},
		{name: "hostPath, by policy", template: podOf + "volumes: [{name: v, hostPath: {path: /var/run}}]}\n", policy: strict, rule: ": host)"},
		{name: "the node's network, by policy", template: podOf + "hostNetwork: true}\n", policy: strict, rule: ": host)"},
		{name: "a privileged container, by policy", template: "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: i, securityContext: {privileged: true}}]}\n", policy: strict, rule: ": privileged)"},
		{name: "external addresses, by policy", template: "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {externalIPs: [10.0.0.1]}\n", policy: strict, rule: ": external-ips)"},
		{name: "a merge patch that moves an object", edit: move(patch.Merge, `{"metadata":{"namespace":"bank"}}`), rule: "a patch must not change apiVersion, kind, namespace or name"},
		{name: "a JSON patch that moves an object", edit: move(patch.JSON, `[{"op":"add","path":"/metadata/namespace","value":"bank"}]`), rule: "a patch must not change apiVersion, kind, namespace or name"},
		{name: "a resource that a controller adds", edit: add("apiVersion: v1\nkind: ConfigMap\n" + inBank), rule: ": namespaces)"},
		{name: "a ClusterRole that a controller adds", edit: add(rbacObject + "ClusterRole\nmetadata: {name: a}\nrules: []\n"), rule: ": permissions)"},
		{name: "a List that a controller adds", edit: add("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: e, namespace: bank}}]\n"), rule: ": namespaces)"},
	}
}

// Nothing that a chart or a controller does leads out of a logical cloud of level 1: the plan refuses the app with
// file and line of what a chart rendered, and an action delivers nothing of it.
func TestF73WaysOutOfALevel1Cloud(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	g, editor := p.cloudOfLevel1()
	const harmless = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	set := func(w wayOut) {
		t.Helper()
		text, edit := w.template, customize.Edit{}
		if text == "" {
			text, edit = harmless, *w.edit
		}
		p.upload("PUT projects/shop/composite-apps/till/v1/apps/web", name("web"), p.chartOf(text))
		editor.edit = edit
	}
	set(wayOut{template: harmless})
	if f := g.planOf("instantiate").Apps[0].Failure; f != nil {
		t.Fatalf("a harmless app is refused: %+v", f)
	}
	place := regexp.MustCompile(`^web/templates/object\.yaml:\d+$`)
	for _, w := range waysOut() {
		if w.policy != "" {
			p.policy("walls", w.policy)
		}
		set(w)
		f := g.planOf("instantiate").Apps[0].Failure
		switch {
		case f == nil:
			t.Errorf("%s: it is not refused", w.name)
		case !strings.Contains(f.Reason, w.rule):
			t.Errorf("%s: refused by %+v, want %q in the reason", w.name, f, w.rule)
		case w.template != "" && !place.MatchString(f.File):
			t.Errorf("%s: the refusal is at %q, without file and line", w.name, f.File)
		}
		if w.policy != "" {
			p.want(204, "DELETE projects/shop/policies/walls", "")
		}
	}
	for i, w := range waysOut()[:2] {
		set(w)
		g.acts([]string{"instantiate", "update"}[i])
		p.work()
		p.settle()
		pairs, err := p.contexts.PairsOf(t.Context(), g.head().Deployment())
		p.must(err)
		if len(pairs) != 0 {
			t.Errorf("%s: %d pairs are to be delivered", w.name, len(pairs))
		}
	}
	if n := len(waysOut()); n < 20 {
		t.Error(fmt.Sprint(n, " ways out are tried"))
	}
}
