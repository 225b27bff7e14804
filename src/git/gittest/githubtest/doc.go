// Package githubtest is a server that speaks what we use of GitHub's REST interface, over
// real bare repositories that a Git client can clone from it and push to. It refuses what
// GitHub refuses: stale moves, rules of branches, unknown objects, malformed trees, calls
// beyond a limit, tokens that have ended. It keeps to a clock that tests may set.
//
//	http://127.0.0.1:port/api/v3/…       the interface, as on GitHub Enterprise Server
//	http://127.0.0.1:port/owner/name.git Git's own protocol
//
// Reading and checking of objects is done by the git program; new ones are written as loose
// objects, which "git fsck" is to find nothing wrong with.
package githubtest
