// Package transport has the HTTP clients of all hosts, classifies the errors of servers, and removes credentials from
// their texts. Package plain connects to servers over SSH itself. The same rules hold for all providers:
//
//   - an address is checked after name resolution, when it can no longer change;
//   - a redirect is followed only for GET and only within the same server, because the
//     repeated request carries the credentials;
//   - certificates of a repository are trusted for that repository alone;
//   - no text that leaves holds a credential.
package transport
