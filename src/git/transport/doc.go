// Package transport is how hosts reach servers over HTTP and TCP, and what they make of
// what goes wrong there. Whatever the provider's interface, the same rules hold:
//
//   - an address is checked after its name was resolved, when it can turn into no other;
//   - a redirect is followed within the same server only, and only by a request that
//     carries no data: the next one would carry the credentials to whoever is named;
//   - certificates of a repository are trusted for that repository alone;
//   - no text that leaves holds a credential.
package transport
