// Package clm owns the clusters: providers, kubeconfigs, labels, key-value pairs, and the
// sync objects that describe how to reach clusters through Git. It checks at registration
// what upstream EMCO finds only when it deploys. It never contacts a cluster or a Git server.
//
// shard.go chooses the place of a new cluster in its repository; move.go changes it.
package clm
