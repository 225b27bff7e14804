// Package dcm owns logical clouds: sets of clusters that a project deploys to. A cloud of
// level 0 has no objects on clusters. One of level 1 prepares each cluster with a namespace, a
// user, permissions and quotas, which rsync delivers as it delivers deployments.
package dcm
