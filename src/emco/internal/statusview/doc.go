// Package statusview answers what is asked about deployments: where each app stands on
// each cluster, from what rsync has proof of and from what clusters say.
//
//	mirror ──head, pairs, reports──► Situation ──Query──► Answer ──► JSON, stream, gRPC
//	etcd ────history, revision, placements──┘
//
// Nothing is said that is not known: Applied needs proof, Ready needs the cluster's word
// on exactly the content that is wanted, and a word that is too old counts for nothing.
package statusview
