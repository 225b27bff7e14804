package capacity

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// errTooMany means that the cluster is larger than Read reads.
var errTooMany = errors.New("too many objects")

// Problem returns why Read failed, for people who must not see addresses of the cluster.
func Problem(err error) string {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return "nodes and pods may not be listed"
	case errors.Is(err, errTooMany):
		return fmt.Sprintf("there are more than %d nodes or pods", maxPages*pageSize)
	}
	return "the API server does not answer"
}
