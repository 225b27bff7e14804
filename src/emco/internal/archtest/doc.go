// Package archtest keeps the import arrows of the module: which package may know
// which. It has tests only.
package archtest
