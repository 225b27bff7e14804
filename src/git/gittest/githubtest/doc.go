// Package githubtest is a server for the part of GitHub's REST API that we use, on real bare
// repositories. A Git client can clone them and push to them. It refuses what
// GitHub refuses: stale moves, rules of branches, unknown objects, malformed trees, calls
// beyond a limit, expired tokens. Tests may set its clock.
//
//	http://127.0.0.1:port/api/v3/…       the interface, as on GitHub Enterprise Server
//	http://127.0.0.1:port/owner/name.git Git's own protocol
//
// The git program reads and checks objects. Package githubtest writes new ones as loose objects,
// which must pass "git fsck".
package githubtest
