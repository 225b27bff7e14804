// Package arm is a client of Azure's resource manager: tokens for the identities of many
// accounts, resources that are read, written and deleted with entity tags, long-running
// operations, and the request budget of each account.
//
// It sends REST requests through the pipeline and the pollers of Azure's SDK. It does not
// use the SDK's generated clients, which have no entity tags.
package arm
