package status

import v2 "github.com/emco-orchestrator/emco/src/api/v2"

// How reports come by HTTPS.
const (
	// SequenceHeader is the header of a refusal (409) with the sequence of the last report.
	SequenceHeader = "Emco-Report-Sequence"
	// TokenPrefix begins the tokens of clusters, so that scanners find leaked ones.
	TokenPrefix = "emco_report_"
)

// Path returns the path, below the address of the control plane, that the agent of a
// cluster posts its reports to.
func Path(cluster v2.ClusterKey) string {
	return "/v2/" + cluster.StoreKey() + "/monitor/report"
}
