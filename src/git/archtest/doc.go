// Package archtest tests rules for the whole module: which package may import which, that nothing creates
// repositories or changes who sees them, and that mutexes name what they guard. It has tests only.
package archtest
