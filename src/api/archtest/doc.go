// Package archtest keeps the import arrows of the module: it needs the standard
// library only, so that everybody can afford it. It has tests only.
package archtest
