package web

import v2 "github.com/emco-orchestrator/emco/src/api/v2"

// Paths of routes below /v2, with the variables that the functions below read.
const (
	CompositeAppPath = "projects/{project}/composite-apps/{compositeApp}/{compositeAppVersion}"
	GroupPath        = CompositeAppPath + "/deployment-intent-groups/{deploymentIntentGroup}"
)

// CompositeApp returns the version of a composite app that the variables of a path name.
func CompositeApp(vars map[string]string) v2.CompositeAppKey {
	return v2.CompositeAppKey{Project: vars["project"], Name: vars["compositeApp"], Version: vars["compositeAppVersion"]}
}

// Group returns the deployment intent group that the variables of a path name.
func Group(vars map[string]string) v2.GroupKey {
	return v2.GroupKey{CompositeApp: CompositeApp(vars), Name: vars["deploymentIntentGroup"]}
}

// LogicalCloud returns the logical cloud that the variables of a path name.
func LogicalCloud(vars map[string]string) v2.LogicalCloudKey {
	return v2.LogicalCloudKey{Project: vars["project"], Name: vars["logicalCloud"]}
}
