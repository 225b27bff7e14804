// Package clm owns the clusters: their providers, kubeconfigs, labels, key-value
// pairs and the sync objects that say how to reach them through Git. It checks at
// registration what EMCO finds out when it deploys. It never contacts a cluster or
// a Git host.
package clm
