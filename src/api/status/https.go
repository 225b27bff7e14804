package status

import "net/url"

// How reports come by HTTPS.
const (
	// SequenceHeader is the header of a refusal (409) with the sequence of the last report.
	SequenceHeader = "Emco-Report-Sequence"
	// TokenPrefix begins the tokens of clusters, so that scanners find leaked ones.
	TokenPrefix = "emco_report_"
)

// Path returns the path, below the address of the control plane, that the agent of a
// cluster posts its reports to.
func Path(provider, cluster string) string {
	return "/v2/cluster-providers/" + url.PathEscape(provider) + "/clusters/" + url.PathEscape(cluster) + "/monitor/report"
}
