// Package archtest tests rules of the repository that the compiler does not check: which package may import which, where
// keys of documents are built, what mutexes guard, and links and names of tests in the documentation. It has tests only.
package archtest
