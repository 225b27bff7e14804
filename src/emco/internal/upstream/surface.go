package upstream

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Route is a route of upstream's API, version 2. Variables of the path are "{}".
type Route struct{ Method, Path, Service string }

// verbs are the methods of a collection and of its items.
type verbs struct{ collection, item string }

// The habits of upstream's collections.
var (
	allVerbs   = verbs{"POST GET", "GET PUT DELETE"}
	withoutPut = verbs{"POST GET", "GET DELETE"}
	clearable  = verbs{"POST GET DELETE", "GET PUT DELETE"} // a DELETE of the collection empties it
)

// serviceRoutes is the collections and the single routes of one service.
type serviceRoutes struct {
	service     string
	collections map[string]verbs
	single      map[string]string // methods by path
}

const (
	clusterPath = "cluster-providers/{}/clusters/{}"
	projectPath = "projects/{}"
	cloudPath   = projectPath + "/logical-clouds/{}"
	appsPath    = projectPath + "/composite-apps/{}/{}"
	groupPath   = appsPath + "/deployment-intent-groups/{}"
)

// surface is upstream's API by services. The item of composite-apps has two names.
var surface = []serviceRoutes{
	{"clm", map[string]verbs{
		"cluster-providers": allVerbs, "cluster-providers/{}/clusters": withoutPut, clusterPath + "/labels": allVerbs,
		clusterPath + "/kv-pairs": allVerbs, "cluster-providers/{}/cluster-sync-objects": allVerbs, "clm-controllers": allVerbs,
	}, nil},
	{"orchestrator", map[string]verbs{
		"projects": allVerbs, projectPath + "/composite-apps": allVerbs, appsPath + "/apps": allVerbs, appsPath + "/apps/{}/dependency": allVerbs,
		appsPath + "/composite-profiles": allVerbs, appsPath + "/composite-profiles/{}/profiles": allVerbs,
		appsPath + "/deployment-intent-groups": allVerbs, groupPath + "/intents": allVerbs, groupPath + "/generic-placement-intents": allVerbs,
		groupPath + "/generic-placement-intents/{}/app-intents": allVerbs, "controllers": allVerbs,
	}, actionsOf(groupPath, "approve instantiate terminate stop update migrate rollback")},
	{"dcm", map[string]verbs{
		projectPath + "/logical-clouds": allVerbs, cloudPath + "/cluster-references": withoutPut, cloudPath + "/user-permissions": withoutPut,
		cloudPath + "/cluster-quotas": withoutPut, cloudPath + "/kv-pairs": withoutPut,
	}, with(actionsOf(cloudPath, "instantiate terminate update stop"), cloudPath+"/cluster-references/{}/kubeconfig", http.MethodGet)},
	{"gac", map[string]verbs{
		groupPath + "/generic-k8s-intents": allVerbs, groupPath + "/generic-k8s-intents/{}/resources": allVerbs,
		groupPath + "/generic-k8s-intents/{}/resources/{}/customizations": allVerbs,
	}, nil},
	{"hpa-plc", map[string]verbs{
		groupPath + "/hpa-intents": clearable, groupPath + "/hpa-intents/{}/hpa-resource-consumers": clearable,
		groupPath + "/hpa-intents/{}/hpa-resource-consumers/{}/resource-requirements": clearable,
	}, nil},
	{"dtc", map[string]verbs{
		"dtc-controllers": allVerbs, groupPath + "/traffic-group-intents": allVerbs, groupPath + "/traffic-group-intents/{}/inbound-intents": allVerbs,
		groupPath + "/traffic-group-intents/{}/inbound-intents/{}/clients":                  allVerbs,
		groupPath + "/traffic-group-intents/{}/inbound-intents/{}/clients/{}/access-points": allVerbs,
	}, nil},
	{"ncm", map[string]verbs{clusterPath + "/networks": allVerbs, clusterPath + "/provider-networks": allVerbs}, actionsOf(clusterPath, "apply terminate stop")},
	{"ovnaction", map[string]verbs{
		groupPath + "/network-controller-intent": allVerbs, groupPath + "/network-controller-intent/{}/workload-intents": allVerbs,
		groupPath + "/network-controller-intent/{}/workload-intents/{}/interfaces": allVerbs,
	}, nil},
	{"ca-certs", map[string]verbs{
		"cluster-providers/{}/ca-certs": allVerbs, "cluster-providers/{}/ca-certs/{}/clusters": allVerbs,
		projectPath + "/ca-certs": allVerbs, projectPath + "/ca-certs/{}/logical-clouds": allVerbs,
		projectPath + "/ca-certs/{}/logical-clouds/{}/clusters": allVerbs,
	}, certificateActions()},
	{"sfc", map[string]verbs{
		groupPath + "/network-chains": allVerbs, groupPath + "/network-chains/{}/links": allVerbs,
		groupPath + "/network-chains/{}/client-selectors": allVerbs, groupPath + "/network-chains/{}/provider-networks": allVerbs,
	}, nil},
	{"sfcclient", map[string]verbs{groupPath + "/sfc-clients": allVerbs}, nil},
	{"tac", map[string]verbs{
		groupPath + "/temporal-action-controller": allVerbs, groupPath + "/temporal-action-controller/{}/workers": allVerbs,
	}, actionsOf(groupPath+"/temporal-action-controller/{}", "cancel")},
	{"workflowmgr", map[string]verbs{groupPath + "/temporal-workflow-intents": withoutPut}, actionsOf(groupPath+"/temporal-workflow-intents/{}", "start cancel")},
	{"policy", nil, map[string]string{
		groupPath + "/policy-intents/{}": "POST GET DELETE", "policy/agents/{}": "POST GET DELETE", "policy/agents": "GET", "health": "GET",
	}},
}

// actionsOf returns actions below a path, and its status.
func actionsOf(path, names string) map[string]string {
	out := map[string]string{path + "/status": http.MethodGet}
	for name := range strings.FieldsSeq(names) {
		out[path+"/"+name] = http.MethodPost
	}
	return out
}

func with(routes map[string]string, path, methods string) map[string]string {
	routes[path] = methods
	return routes
}

func certificateActions() map[string]string {
	out := map[string]string{}
	for _, root := range []string{"cluster-providers/{}/ca-certs/{}", projectPath + "/ca-certs/{}"} {
		for _, stage := range []string{"enrollment", "distribution"} {
			maps.Copy(out, actionsOf(root+"/"+stage, "instantiate terminate update"))
		}
	}
	return out
}

// Surface returns all routes of upstream's API, in order of services, paths and methods.
func Surface() (out []Route) {
	for _, f := range surface {
		byPath := maps.Clone(f.single)
		if byPath == nil {
			byPath = map[string]string{}
		}
		for path, v := range f.collections {
			item := path + "/{}"
			if strings.HasSuffix(path, "/composite-apps") {
				item += "/{}"
			}
			byPath[path], byPath[item] = v.collection, v.item
		}
		for _, path := range slices.Sorted(maps.Keys(byPath)) {
			for method := range strings.FieldsSeq(byPath[path]) {
				out = append(out, Route{method, path, f.service})
			}
		}
	}
	return out
}
