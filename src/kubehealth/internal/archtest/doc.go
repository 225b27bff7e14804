// Package archtest checks which packages of the module may import which; see its test.
package archtest
