// Package transport has the HTTP clients of all Git hosts, which emco's sinks use too, classifies the errors of servers, and removes credentials from
// their texts. Package plain connects to servers over SSH itself. The same rules hold for all providers:
//
//   - an address is checked after name resolution, when it can no longer change;
//   - a redirect is followed only for GET and only within the same server, because the
//     repeated request carries the credentials;
//   - certificates that a repository names are trusted only for repositories that name them;
//   - no text that leaves holds a credential.
package transport
