// Package plan reads what the documents of a deployment intent group describe: the clusters of
// each app, the source of its rendering, the policies that bound it and the order of its
// delivery. It renders nothing and writes nothing.
//
// plan.go reads the documents and places the apps, intents.go reads the group's intents and calls
// the controllers that they name, requests.go reads what each app is rendered from and its order,
// policies.go reads the policies and compares content with them, encrypt.go adds the edits that
// encrypt Secrets, registered.go refuses rollbacks to clusters that have gone, waves.go the clusters of waves, outcome.go makes the digest that binds an action to its plan.
package plan
