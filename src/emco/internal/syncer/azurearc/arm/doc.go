// Package arm speaks to Azure's resource manager: tokens for the identities of many
// accounts, resources that are read, written and deleted with entity tags, operations
// that take long, and the budget that Azure gives to each account.
//
// It is REST over the pipeline and the pollers of Azure's SDK. The SDK's generated clients
// are not used: they carry no entity tags.
package arm
