// Package upstream lists the routes that upstream EMCO serves, and the ports on which clients look for its
// services.
package upstream

// Port is a port on which clients of upstream EMCO look for a service.
type Port struct {
	Service string
	Number  int
}

// Ports returns the ports of upstream's services that serve REST, in order of the numbers.
func Ports() []Port {
	return []Port{
		{"orchestrator", 9015},
		{"dtc", 9018},
		{"gac", 9020},
		{"ca-certs", 9036},
		{"ovnaction", 9051},
		{"sfc", 9055},
		{"sfcclient", 9057},
		{"policy", 9060},
		{"clm", 9061},
		{"tac", 9064},
		{"dcm", 9077},
		{"ncm", 9081},
		{"hpa-plc", 9091},
		{"workflowmgr", 9095},
	}
}
