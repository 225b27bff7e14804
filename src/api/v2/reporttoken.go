package v2

import "time"

// NewReportToken is a new token, as POST
// /v2/cluster-providers/{p}/clusters/{c}/monitor/token returns it. It is not shown again.
type NewReportToken struct {
	ID    string `json:"id"`
	Token string `json:"token"`
	Path  string `json:"path"` // to post reports to, below the address of the control plane
}

// ReportToken describes a valid token, as GET
// /v2/cluster-providers/{p}/clusters/{c}/monitor/token lists it.
type ReportToken struct {
	ID    string    `json:"id"`
	Made  time.Time `json:"made"`
	Ends  time.Time `json:"ends,omitzero"` // zero: when it is revoked
	Actor string    `json:"actor,omitempty"`
}
