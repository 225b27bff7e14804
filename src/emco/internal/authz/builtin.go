package authz

import "slices"

// The roles that are built in.
const (
	Viewer           = "viewer"
	Deployer         = "deployer"
	Approver         = "approver"
	ProjectAdmin     = "project-admin"
	ClusterRegistrar = "cluster-registrar"
	Auditor          = "auditor"
	PlatformAdmin    = "platform-admin"
)

// deployed are the types that a deployer writes.
func deployed() []string {
	return []string{
		"apps", "app-intents", "composite-apps", "composite-profiles", "customizations", "dependency", "deployment-intent-groups",
		"access-points", "chain-networks", "client-selectors", "clients", "generic-k8s-intents", "generic-placement-intents", "hpa-intents", "hpa-resource-consumers", "inbound-intents", "intents", "interfaces", "links", "network-chains", "network-controller-intent", "policy-intents", "profiles", OwnInProjects, "resource-requirements", "resources", "sfc-clients", "temporal-action-controller", "temporal-workflow-intents", "traffic-group-intents", "workers", "workload-intents",
	}
}

// inProjects are the types of documents in a project that a project-admin writes and a deployer only reads.
func inProjects() []string {
	return []string{"ca-certs", "cluster-quotas", "cluster-references", "logical-clouds", "policies", "user-permissions"}
}

func inProviders() []string {
	return []string{"ca-certs", "cluster-sync-objects", "clusters", "kv-pairs", "labels", "networks", "provider-networks", OwnInProviders}
}

// seen are further types that viewers read.
func seen() []string {
	return []string{"agents", "branches", "clm-controllers", "cluster-providers", "controllers", "dtc-controllers", "metrics", "projects", "role-bindings", "roles"}
}

// BuiltIn returns the rules of the roles that are built in.
func BuiltIn() map[string][]Rule {
	read, write := []string{Get, List}, []string{Get, List, Create, Update, Delete}
	readable := slices.Concat(deployed(), inProjects(), inProviders(), seen())
	view := Rule{read, readable}
	deploy := []Rule{
		view,
		{write, deployed()},
		{[]string{Act("start"), Act("cancel"), Act("retry"), Act("skip"), Act("abort")}, []string{"temporal-action-controller", "temporal-workflow-intents"}},
		{[]string{Act("instantiate"), Act("update"), Act("rollback"), Act("migrate"), Act("terminate"), Act("stop"), Act("promote")}, []string{"deployment-intent-groups"}},
	}
	approve := Rule{[]string{Act("approve")}, []string{"deployment-intent-groups"}}
	return map[string][]Rule{
		Viewer:   {view},
		Deployer: deploy,
		Approver: {view, approve},
		ProjectAdmin: slices.Concat(deploy, []Rule{
			approve,
			{write, slices.Concat(inProjects(), []string{"kv-pairs", "role-bindings"})},
			{[]string{Update}, []string{"projects"}},
			{[]string{anyAction}, []string{"ca-certs", "logical-clouds"}},
			{[]string{Reveal}, []string{"cluster-references"}},
			{read, []string{"audit"}}, // the lines of the project
		}),
		ClusterRegistrar: {
			view,
			{write, slices.Concat(inProviders(), []string{"report-tokens"})},
			{[]string{Act("move"), Act("apply"), Act("terminate"), Act("stop")}, []string{"clusters"}},
			{[]string{anyAction}, []string{"ca-certs"}},
		},
		Auditor:       {view, {read, []string{"audit", "doctor", "tokens", "report-tokens"}}},
		PlatformAdmin: {{[]string{Any}, []string{Any}}},
	}
}
