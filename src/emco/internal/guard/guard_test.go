package guard_test

import (
	"slices"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/guard"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// objectsOf parses and completes a text, as a rendering does.
func objectsOf(t *testing.T, text string) []manifest.Object {
	t.Helper()
	objects, err := manifest.Parse("web/templates/x.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if objects, err = manifest.Complete(objects, manifest.Defaults{Namespace: "shop", Scopes: manifest.ScopesOf(objects)}); err != nil {
		t.Fatal(err)
	}
	return objects
}

// rulesOf returns the rules that a text breaks, sorted, each once.
func rulesOf(t *testing.T, text string, policies ...guard.Policy) string {
	t.Helper()
	breaches, err := guard.Check(objectsOf(t, text), policies...)
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, b := range breaches {
		rules = append(rules, b.Rule)
	}
	slices.Sort(rules)
	return strings.Join(slices.Compact(rules), " ")
}

// pod is a Deployment whose pod and container have more members, as flow mappings without
// their braces.
func pod(ofPod, ofContainer string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {" + ofPod + " containers: [{name: c, " + ofContainer + "}]}}}\n"
}

func TestF73WaysOutOfALogicalCloud(t *testing.T) {
	t.Parallel()
	confined := guard.Policy{Name: "shop", Strict: true, Namespaces: []string{"shop", "shop-*"}}
	const rbac = "apiVersion: rbac.authorization.k8s.io/v1\n"
	for _, tt := range []struct{ name, text, builtIn, confined string }{
		{"harmless", pod("", "image: web") + "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n", "", ""},
		{"an allowed namespace", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop-test}\n", "", ""},
		{"another namespace", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: bank}\n", "", "namespaces"},
		{"a namespace of the system", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: kube-system}\n", "namespaces", "namespaces"},
		{"another namespace within a list", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Secret\n  metadata: {name: a, namespace: bank}\n", "", "namespaces"},
		{"a list of its own kind", "apiVersion: v1\nkind: ConfigMapList\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a, namespace: bank}\n", "", "namespaces"},
		{"a list that is none", "apiVersion: v1\nkind: SecretList\nmetadata: {name: a}\nitems: {}\n", "kinds", "kinds"},
		{"a namespace", "apiVersion: v1\nkind: Namespace\nmetadata: {name: bank}\n", "cluster-scoped", "cluster-scoped"},
		{"a namespace that pretends to be namespaced", "apiVersion: v1\nkind: Namespace\nmetadata: {name: bank, namespace: shop}\n", "cluster-scoped", "cluster-scoped"},
		{"a volume of the node", "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: a}\nspec: {hostPath: {path: /}}\n", "cluster-scoped host", "cluster-scoped host"},
		{"cluster-admin", rbac + "kind: ClusterRoleBinding\nmetadata: {name: a}\nroleRef: {kind: ClusterRole, name: cluster-admin}\n", "cluster-scoped permissions", "cluster-scoped permissions"},
		{"cluster-admin in a namespace", rbac + "kind: RoleBinding\nmetadata: {name: a}\nroleRef: {kind: ClusterRole, name: cluster-admin}\n", "permissions", "permissions"},
		{"everyone", rbac + "kind: RoleBinding\nmetadata: {name: a}\nroleRef: {kind: Role, name: a}\nsubjects: [{kind: Group, name: 'system:authenticated'}]\n", "permissions", "permissions"},
		{"a role that escalates", rbac + "kind: Role\nmetadata: {name: a}\nrules: [{apiGroups: [x], resources: [roles], verbs: [get, escalate]}]\n", "permissions", "permissions"},
		{"a role of everything", rbac + "kind: Role\nmetadata: {name: a}\nrules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]\n", "permissions", "permissions"},
		{"tokens of accounts by a role", rbac + "kind: Role\nmetadata: {name: a}\nrules: [{apiGroups: [''], resources: [serviceaccounts/token], verbs: [create]}]\n", "permissions", "permissions"},
		{"the token of an account", "apiVersion: v1\nkind: Secret\nmetadata: {name: a, annotations: {kubernetes.io/service-account.name: admin}}\ntype: kubernetes.io/service-account-token\n", "permissions", "permissions"},
		{"an ordinary role", rbac + "kind: Role\nmetadata: {name: a}\nrules: [{apiGroups: [''], resources: [pods], verbs: ['*']}]\n", "", ""},
		{"a definition", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.b.c}\nspec: {group: b.c, scope: Cluster, names: {kind: A}}\n---\napiVersion: b.c/v1\nkind: A\nmetadata: {name: a}\n", "cluster-scoped definitions", "cluster-scoped definitions"},
		{"a webhook", "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: a}\n", "webhooks", "webhooks"},
		{"an aggregated API", "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.a}\n", "webhooks", "webhooks"},
		{"a folder of the node", pod("volumes: [{name: v, hostPath: {path: /var/run}}],", "image: a"), "host", "host"},
		{"the node's network", pod("hostNetwork: true,", "image: a"), "host", "host"},
		{"the node's processes", pod("hostPID: true,", "image: a"), "host", "host"},
		{"a port of the node", pod("", "ports: [{containerPort: 1, hostPort: 1}]"), "host", "host"},
		{"a sysctl", pod("securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]},", "image: a"), "host", "host"},
		{"a privileged container", pod("", "securityContext: {privileged: true}"), "privileged", "privileged"},
		{"a privileged container of the start", pod("initContainers: [{name: i, securityContext: {privileged: true}}],", "image: a"), "privileged", "privileged"},
		{"a capability", pod("", "securityContext: {capabilities: {add: [cap_sys_admin]}}"), "privileged", "privileged"},
		{"a capability that runtimes give anyway", pod("", "securityContext: {capabilities: {add: [NET_BIND_SERVICE], drop: [ALL]}}"), "", ""},
		{"an unmasked /proc", pod("", "securityContext: {procMount: Unmasked}"), "privileged", "privileged"},
		{"no seccomp", pod("securityContext: {seccompProfile: {type: Unconfined}},", "image: a"), "privileged", "privileged"},
		{"a pod in a CronJob", "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec: {jobTemplate: {spec: {template: {spec: {hostIPC: true, containers: [{name: c}]}}}}}\n", "host", "host"},
		{"a pod in a custom kind", "apiVersion: example.org/v1\nkind: Site\nmetadata: {name: a}\nspec: {agents: [{podSpec: {containers: [{securityContext: {privileged: true}}]}}]}\n", "privileged", "kinds privileged"},
		{"a custom kind, perhaps of the whole cluster", "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: a}\n", "", "kinds"},
		{"a Flux Kustomization", "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: a}\nspec: {path: clusters/other}\n", "gitops", "gitops kinds"},
		{"an Argo Application", "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a}\n", "gitops", "gitops kinds"},
		{"a cluster for Argo CD", "apiVersion: v1\nkind: Secret\nmetadata: {name: a, labels: {argocd.argoproj.io/secret-type: cluster}}\n", "gitops", "gitops"},
		{"a RootSync", "apiVersion: configsync.gke.io/v1beta1\nkind: RootSync\nmetadata: {name: a}\n", "gitops", "gitops kinds"},
		{"an order to EMCO's agent", "apiVersion: k8splugin.io/v1alpha1\nkind: ResourceBundleState\nmetadata: {name: a}\n", "gitops", "gitops kinds"},
		{"an address of others", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {externalIPs: [10.0.0.1]}\n", "external-ips", "external-ips"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := rulesOf(t, tt.text, guard.Policy{}); got != tt.builtIn {
				t.Errorf("the built-in policy finds %q, want %q", got, tt.builtIn)
			}
			if got := rulesOf(t, tt.text, confined); got != tt.confined {
				t.Errorf("the strict policy finds %q, want %q", got, tt.confined)
			}
		})
	}
}

func TestPoliciesAllowAndDeny(t *testing.T) {
	t.Parallel()
	const issuer = "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: a}\n"
	for _, tt := range []struct {
		name, text string
		policy     guard.Policy
		want       string
	}{
		{"a Secret with values", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: b}\n", guard.Policy{RefuseSecrets: true}, "secrets"},
		{"a Secret without values", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n", guard.Policy{RefuseSecrets: true}, ""},
		{"an encrypted Secret", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: 'ENC[AES256_GCM,data:x]'}\nsops: {version: 3.9.0}\n", guard.Policy{RefuseSecrets: true}, ""},
		{"a Secret that pretends to be encrypted", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: b}\nsops: {version: 3.9.0}\n", guard.Policy{RefuseSecrets: true}, "secrets"},
		{"an allowed rule", pod("hostNetwork: true,", "image: a"), guard.Policy{Allow: []string{v2.RuleHost}}, ""},
		{"an allowed kind", issuer, guard.Policy{Name: "p", Kinds: []string{"*.cert-manager.io"}}, ""},
		{"another kind", issuer, guard.Policy{Name: "p", Kinds: []string{"Issuer.cert-manager.io"}}, "kinds"},
		{"a denied kind", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n", guard.Policy{DenyKinds: []string{"Service"}}, "kinds"},
		{"a listed namespace of the system", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: kube-system}\n", guard.Policy{Namespaces: []string{"kube-system"}}, ""},
	} {
		if got := rulesOf(t, tt.text, tt.policy); got != tt.want {
			t.Errorf("%s: finds %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestRefusalsNameFileAndLine(t *testing.T) {
	t.Parallel()
	text := "# comment\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: bank}\n---\n" + pod("hostPID: true,", "image: a")
	breaches, err := guard.Check(objectsOf(t, text), guard.Policy{}, guard.Policy{Name: "p", Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	file, line, reason, refused := guard.Refusal(breaches)
	if !refused || file != "web/templates/x.yaml" || line != 6 {
		t.Errorf("Refusal = %s, %d, %v", file, line, refused)
	}
	want := "v1 Namespace bank belongs to the whole cluster (policy p: cluster-scoped) (the line counts in the template's output)\n" +
		"web/templates/x.yaml:10: apps/v1 Deployment shop/web shares its node's resources (hostPID) (policy p: host)"
	if reason != want {
		t.Errorf("the reason is\n%s\nwant\n%s", reason, want)
	}
	findings := guard.Findings(breaches)
	if want := []string{
		"v1 Namespace bank: belongs to the whole cluster (the built-in policy: cluster-scoped)",
		"apps/v1 Deployment shop/web: shares its node's resources (hostPID) (the built-in policy: host)",
	}; !slices.Equal(findings, want) {
		t.Errorf("Findings = %q", findings)
	}
}

// The bounds of a logical cloud of level 1 follow from its permissions.
func TestTheBoundsOfALogicalCloud(t *testing.T) {
	t.Parallel()
	const (
		own       = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
		other     = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: bank}\n"
		system    = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: kube-system}\n"
		wide      = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: a}\nroleRef: {kind: ClusterRole, name: cluster-admin}\n"
		custom    = "apiVersion: example.org/v1\nkind: Site\nmetadata: {name: a}\n"
		reconcile = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: a}\n"
	)
	standard, two, privileged := guard.Confined("team", []string{"shop"}), guard.Confined("team", []string{"bank", "shop"}), guard.Confined("team", []string{"", "shop"})
	for _, tt := range []struct{ name, text, standard, two, privileged string }{
		{"its own namespace", own, "", "", ""},
		{"another namespace", other, "namespaces", "", ""},
		{"a namespace of the system", system, "namespaces", "namespaces", ""},
		{"the whole cluster", wide, "cluster-scoped permissions", "cluster-scoped permissions", ""},
		{"a custom kind", custom, "", "", ""},
		{"a reconciler", reconcile, "gitops", "gitops", "gitops"},
		{"the node, which policies bound", pod("hostPID: true,", "image: a"), "", "", ""},
	} {
		for _, of := range []struct {
			policy guard.Policy
			want   string
		}{{standard, tt.standard}, {two, tt.two}, {privileged, tt.privileged}} {
			if got := rulesOf(t, tt.text, of.policy); got != of.want {
				t.Errorf("%s, namespaces %q: got %q, want %q", tt.name, of.policy.Namespaces, got, of.want)
			}
		}
	}
	if text := standard.String(); text != "logical cloud team" {
		t.Errorf("it is called %q", text)
	}
}

// Patterns of users are compared in time that grows with their length, and hold no expressions.
func TestH16PatternsCannotBeSlow(t *testing.T) {
	t.Parallel()
	hostile := strings.Repeat("a*", 60) + "b"
	p := guard.Policy{Name: "walls", Strict: true, Namespaces: []string{hostile, "(a+)+$", ".*"}, Kinds: []string{hostile}}
	namespace := strings.Repeat("a", 63)
	objects, err := manifest.Parse("x.yaml", []byte("apiVersion: example.com/v1\nkind: "+strings.Repeat("A", 63)+"\nmetadata: {name: a, namespace: "+namespace+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	breaches, err := guard.Check(objects, p)
	if err != nil || !slices.ContainsFunc(breaches, func(b guard.Breach) bool { return b.Rule == v2.RuleNamespaces }) {
		t.Errorf("breaches %+v, %v: no pattern names the namespace", breaches, err)
	}
}
