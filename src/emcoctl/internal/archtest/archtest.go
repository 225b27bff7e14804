// Package archtest keeps the import arrows of this module true; it has tests only.
package archtest
