// Package dcm owns logical clouds: sets of clusters that a project deploys to. Only level 0
// is supported; such clouds have no objects on clusters.
package dcm
