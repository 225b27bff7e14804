// Package clm owns the clusters: providers, kubeconfigs, labels, key-value pairs, clm-controllers, and the
// sync objects that name the repository, registry or bucket of pull-mode clusters. It checks at registration
// what upstream EMCO finds only when it deploys. It never contacts a cluster or a Git server.
//
// slots.go chooses the slot of a new cluster, its branch and directory; move.go changes it.
package clm
