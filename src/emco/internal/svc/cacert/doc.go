// Package cacert owns certificate authorities of clusters. In the stage enrollment, an issuer of cert-manager signs
// an intermediate certificate for each cluster; in the stage distribution, each cluster gets its certificate
// with the private key, and an issuer that signs with it. Each stage is an addon of its own. One process renews all
// certificates.
//
//	keys (sealed documents) ──requests──► enrollment, on the issuing cluster
//	signed certificates + keys ──Secrets, ClusterIssuers──► distribution, on the clusters
package cacert
