package upstream

// Query is a form of GET that upstream's API knows besides the plain one.
type Query struct{ Service, Path, Param string }

// Queries returns the queries of upstream's documents. Variables of the path are "{}".
func Queries() []Query {
	const hpa = groupPath + "/hpa-intents"
	return []Query{
		{"clm", "cluster-providers/{}/clusters", "label"},
		{"clm", "cluster-providers/{}/clusters", "withLabels"},
		{"clm", "cluster-providers/{}/clusters/{}/kv-pairs/{}", "key"},
		{"clm", "cluster-providers/{}/cluster-sync-objects/{}", "key"},
		{"orchestrator", appsPath + "/composite-profiles/{}/profiles", "app"},
		{"orchestrator", groupPath + "/intents", "intent"},
		{"orchestrator", groupPath + "/generic-placement-intents/{}/app-intents", "app"},
		{"hpa-plc", hpa, "intent"},
		{"hpa-plc", hpa + "/{}/hpa-resource-consumers", "consumer"},
		{"hpa-plc", hpa + "/{}/hpa-resource-consumers/{}/resource-requirements", "resource"},
	}
}
