package manifest

import (
	"regexp"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// maxLabelValue is the length that Kubernetes allows a label's value.
const maxLabelValue = 63

var (
	labelValue = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	notInLabel = regexp.MustCompile(`[^-A-Za-z0-9_.]`)
)

// DeploymentLabel returns the label that ties an object on a cluster to its app:
// "emco/deployment-id", with the value "<uid>-<app>" that upstream's monitor expects.
//
// A value that is not a legal label is cut to 52 characters, illegal characters become "-",
// and "-" with ten hexadecimal digits of the SHA-256 of "<uid>-<app>" follow. So two apps
// never share a value.
func DeploymentLabel(deployment v2.DeploymentID, app string) (key, value string) {
	value = string(deployment) + "-" + app
	if len(value) > maxLabelValue || !labelValue.MatchString(value) {
		hash := string(DigestOf([]byte(value))[:10])
		head := notInLabel.ReplaceAllString(value, "-")
		head = strings.TrimLeft(head[:min(len(head), maxLabelValue-1-len(hash))], "-_.")
		value = strings.TrimPrefix(head+"-"+hash, "-")
	}
	return "emco/deployment-id", value
}
