// Package transport connects hosts to servers over HTTP and TCP, and classifies errors. The same
// rules hold for all providers:
//
//   - an address is checked after name resolution, when it can no longer change;
//   - a redirect is followed within the same server only, and only by a request that
//     carries no data: the next one would carry the credentials to the named server;
//   - certificates of a repository are trusted for that repository alone;
//   - no text that leaves holds a credential.
package transport
