package v2

import "strings"

// The keys of the documents below a project. Each has a StoreKey, the key of its document in
// the document store, which is also its path below /v2. The names in them are not checked.

// ProjectStoreKey returns the key of the document of a project.
func ProjectStoreKey(project string) string { return "projects/" + project }

// ProjectOf returns the name of the project that a key of the document store is in; empty if it
// is in none.
func ProjectOf(storeKey string) string {
	below, inside := strings.CutPrefix(storeKey, ProjectStoreKey(""))
	if !inside {
		return ""
	}
	name, _, _ := strings.Cut(below, "/")
	return name
}

// CompositeAppKey identifies a version of a composite app.
type CompositeAppKey struct{ Project, Name, Version string }

// StoreKey returns the key of the version's document.
func (k CompositeAppKey) StoreKey() string {
	return ProjectStoreKey(k.Project) + "/composite-apps/" + k.Name + "/" + k.Version
}

// ProfileStoreKey returns the key of the document of a composite profile of the version.
func (k CompositeAppKey) ProfileStoreKey(profile string) string {
	return k.StoreKey() + "/composite-profiles/" + profile
}

// CompositeAppOf returns the version of a composite app whose document has a key of the
// document store, or is above it; false if there is none.
func CompositeAppOf(storeKey string) (CompositeAppKey, bool) {
	part := strings.SplitN(storeKey, "/", 6)
	if len(part) < 5 || part[0] != "projects" || part[2] != "composite-apps" {
		return CompositeAppKey{}, false
	}
	return CompositeAppKey{Project: part[1], Name: part[3], Version: part[4]}, true
}

// childOf returns the version of a composite app and the name of a document right below it, in
// a collection; false if a key is not that of such a document.
func childOf(storeKey, collection string) (CompositeAppKey, string, bool) {
	part := strings.Split(storeKey, "/")
	app, ok := CompositeAppOf(storeKey)
	if !ok || len(part) != 7 || part[5] != collection {
		return CompositeAppKey{}, "", false
	}
	return app, part[6], true
}

// AppKey identifies an app of a composite app.
type AppKey struct {
	CompositeApp CompositeAppKey
	Name         string
}

// StoreKey returns the key of the app's document.
func (k AppKey) StoreKey() string { return k.CompositeApp.StoreKey() + "/apps/" + k.Name }

// AppOf returns the app whose document has a key of the document store, and whether it is
// such a key.
func AppOf(storeKey string) (AppKey, bool) {
	app, name, ok := childOf(storeKey, "apps")
	return AppKey{app, name}, ok
}

// GroupKey identifies a deployment intent group.
type GroupKey struct {
	CompositeApp CompositeAppKey
	Name         string
}

// StoreKey returns the key of the group's document.
func (k GroupKey) StoreKey() string {
	return k.CompositeApp.StoreKey() + "/deployment-intent-groups/" + k.Name
}

// String returns the short form, PROJECT/COMPOSITEAPP/VERSION/GROUP.
func (k GroupKey) String() string {
	return k.CompositeApp.Project + "/" + k.CompositeApp.Name + "/" + k.CompositeApp.Version + "/" + k.Name
}

// GroupOf returns the group whose document has a key of the document store, and whether it is
// such a key.
func GroupOf(storeKey string) (GroupKey, bool) {
	app, name, ok := childOf(storeKey, "deployment-intent-groups")
	return GroupKey{app, name}, ok
}

// Group returns the deployment intent group that i names.
func (i StatusSubject) Group() GroupKey {
	return GroupKey{CompositeAppKey{Project: i.Project, Name: i.CompositeApp, Version: i.CompositeAppVersion}, i.Name}
}

// LogicalCloudKey identifies a logical cloud.
type LogicalCloudKey struct{ Project, Name string }

// StoreKey returns the key of the cloud's document.
func (k LogicalCloudKey) StoreKey() string {
	return ProjectStoreKey(k.Project) + "/logical-clouds/" + k.Name
}

// String returns the short form, PROJECT/CLOUD.
func (k LogicalCloudKey) String() string { return k.Project + "/" + k.Name }

// CloudName names a logical cloud with its project, as revisions and backends do:
// "<project>+<cloud>".
func CloudName(project, cloud string) string { return project + "+" + cloud }

// MemberName names a cluster of a logical cloud within its project: "<cloud>+<provider>+<cluster>".
func MemberName(cloud string, cluster ClusterKey) string { return cloud + "+" + string(cluster) }

// LogicalCloudOf returns the logical cloud whose document has a key of the document store, and
// whether it is such a key.
func LogicalCloudOf(storeKey string) (LogicalCloudKey, bool) {
	part := strings.Split(storeKey, "/")
	if len(part) != 4 || part[0] != "projects" || part[2] != "logical-clouds" {
		return LogicalCloudKey{}, false
	}
	return LogicalCloudKey{Project: part[1], Name: part[3]}, true
}

// LogicalCloud returns the logical cloud that i names.
func (i StatusSubject) LogicalCloud() LogicalCloudKey { return LogicalCloudKey{i.Project, i.Name} }

// ShortName returns the short form of the key of a document that is deployed: of a group or a
// logical cloud. Other texts stay.
func ShortName(storeKey string) string {
	if k, ok := GroupOf(storeKey); ok {
		return k.String()
	}
	if k, ok := LogicalCloudOf(storeKey); ok {
		return k.String()
	}
	return storeKey
}
