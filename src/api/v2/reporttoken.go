package v2

import "time"

// NewReportToken is a token that was just made, by POST
// /v2/cluster-providers/{p}/clusters/{c}/monitor/token. It is shown this once.
type NewReportToken struct {
	ID    string `json:"id"`
	Token string `json:"token"`
	Path  string `json:"path"` // to post reports to, below the address of the control plane
}

// ReportToken is what can be seen of a token that is valid, as GET
// /v2/cluster-providers/{p}/clusters/{c}/monitor/token lists them.
type ReportToken struct {
	ID    string    `json:"id"`
	Made  time.Time `json:"made"`
	Ends  time.Time `json:"ends,omitzero"` // zero: when it is revoked
	Actor string    `json:"actor,omitempty"`
}
