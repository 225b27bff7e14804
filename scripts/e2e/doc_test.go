// Package e2e tests the built programs from outside. run.sh groups its tests into lanes, by the real servers that they
// need: API servers of Kubernetes, Flux, Gitea, etcd, Temporal and others; `run.sh lanes` lists them.
package e2e
