// Package archtest tests which packages of the module may import which, and that each mutex names what it guards. It has
// tests only.
package archtest
