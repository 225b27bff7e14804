// Package arm speaks to Azure's resource manager: tokens for the identities of many
// accounts, resources that are read, written and deleted with entity tags, operations
// that take long, and the budget that Azure gives to each account.
//
// It is plain REST. Of Azure's SDK it uses azidentity for tokens and nothing else: the
// generated clients neither carry entity tags nor leave room for a budget.
package arm
