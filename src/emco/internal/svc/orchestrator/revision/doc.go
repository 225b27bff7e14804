// Package revision turns plans into revisions of the AppContext: it renders each class of an app
// once, compares the content with the policies, and publishes what was built. It reads no
// documents.
//
// build.go renders and publishes, restore.go makes earlier revisions the next ones,
// placements.go knows where apps are and should be, confirmation.go asks before much is removed,
// duplicates.go finds objects that two apps place on one cluster, encrypt.go encrypts Secrets, use.go counts what a revision puts on clusters.
package revision
