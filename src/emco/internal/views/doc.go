// Package views answers questions about the whole fleet: how many clusters are ready, which
// are the worst, what runs where; and about one cluster. It also serves what clusters held before, search, branches with their commits,
// and the events of all deployments, which package appcontext stores.
//
//	etcd ──► mirror ──record by record──► tally ──counts, letters──► /v2/views
//	                └──pairs of the clusters of one page────────────┘
//
// The tally changes its counts with each record. An answer reads counts, walks at most the clusters of the fleet or the
// deployments, and reads single pairs only for the rows of its page, which has at most 200. The exceptions are the fleet by
// deployment, and with a filter of apps: they walk the clusters of each deployment that counts, in memory; and histories, which
// package clusterhistory stores: that of a deployment reads its entries from etcd and walks its pairs in memory, and that of a cluster reads
// the entries of all deployments, a page at a time, and keeps those that name the cluster.
package views
