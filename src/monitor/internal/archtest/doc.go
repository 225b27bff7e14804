// Package archtest holds the import arrows of the module; see its test.
package archtest
